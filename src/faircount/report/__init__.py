"""Presenters: a report in, text out. They see nothing but reports; they never read, count or estimate."""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
