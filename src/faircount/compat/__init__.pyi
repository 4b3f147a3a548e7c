from faircount.compat.rebel import imports_rebel as imports_rebel
from faircount.compat.rebel import read_api_config as read_api_config
from faircount.compat.spikee.results import spikee_rows as spikee_rows
