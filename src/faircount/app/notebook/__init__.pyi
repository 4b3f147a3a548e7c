from faircount.app.notebook.results import read as read
from faircount.app.notebook.summary import SCOPE as SCOPE
from faircount.app.notebook.summary import fragment as fragment
