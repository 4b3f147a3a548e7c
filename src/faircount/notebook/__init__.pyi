from faircount.notebook.results import read as read
from faircount.notebook.summary import SCOPE as SCOPE
from faircount.notebook.summary import fragment as fragment
