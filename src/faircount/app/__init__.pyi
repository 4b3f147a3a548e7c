from faircount.app.judges import update_file as update_file
from faircount.app.options import Models as Models
