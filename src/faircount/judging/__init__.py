"""Judges: what turns an attempt into a verdict. Their seam, those built in, those of others, and how to name one.

spikee calls such a thing a judge, REBEL a metric, garak a detector; here all of them are one kind. This room decides
about attempts. It reads no result files, prints nothing, and loads no code that a file names.
"""

from faircount.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
