"""The same analysis on a cluster: nothing of it is imported unless it is asked for."""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
