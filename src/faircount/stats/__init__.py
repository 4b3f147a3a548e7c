"""Statistics as pure functions: counts and arrays in, estimates out. Knows nothing of attempts, files or reports."""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
