"""Commands as library calls: options by keyword, a result out. Nothing is printed here, and no exit code is known."""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
