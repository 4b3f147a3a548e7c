"""Readers: bytes in, ledger batches and findings out. Nothing here executes code that a file names."""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
