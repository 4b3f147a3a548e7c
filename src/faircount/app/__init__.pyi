from faircount.app.judges import update_file as update_file
from faircount.app.options import Models as Models
from faircount.app.sample import HOSTILE_RESPONSES as HOSTILE_RESPONSES
from faircount.app.sample import SampleFiles as SampleFiles
from faircount.app.sample import write_sample as write_sample
