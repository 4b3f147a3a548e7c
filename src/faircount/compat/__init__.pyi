from faircount.compat.rebel.client import read_api_config as read_api_config
from faircount.compat.rebel.test_files import imports_rebel as imports_rebel
