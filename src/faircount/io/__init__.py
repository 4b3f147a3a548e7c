"""Files as records: whatever they are written in, and whichever column has which role."""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
