"""Conversations with language models over HTTP: one client for judges and for targets.

This package sends messages and hands back answers with what they took. It decides nothing about them, and a secret
reaches nothing but the request that needs it.
"""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
