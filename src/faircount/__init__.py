"""Faircount: numbers people can believe, and the evidence behind them, from results of testing language models.

The names in the stub beside this file are the public ones; everything else may change without notice. They are loaded
when first used, so that importing Faircount costs nothing.
"""

from faircount.core.lazy import names_of
from faircount.version import __version__ as __version__

__getattr__, __dir__ = names_of(__name__, __file__)
