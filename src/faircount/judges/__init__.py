"""Judges: what turns an attempt into a verdict. Their base class, those built in, those of others, and how to name one.

Other tools call such a thing a metric, a detector or a scorer; here all of them are one kind. This package decides
about attempts. It reads no result files, prints nothing, and loads no code that a file names.
"""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
