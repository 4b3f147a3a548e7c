"""What was found out, as blocks of plain data, and its presenters: console, Markdown, HTML, sheets, CSV and others.

Presenters see nothing but blocks and rows of values; they never read, count or estimate.
"""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
