"""Runs: cases sent to a target, every attempt judged as it arrives and kept in a journal before it counts."""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
