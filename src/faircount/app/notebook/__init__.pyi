from faircount.app.notebook.results import SCOPE as SCOPE
from faircount.app.notebook.results import fragment as fragment
from faircount.app.notebook.results import read as read
