"""Questions answered: ledgers in, analyses and reports out. Never prints and never opens a file for output."""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
