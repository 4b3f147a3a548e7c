"""Judges, targets and attacks by name: one `Spec`, one registry, one loader of code, one way to make them.

What a judge, a target or an attack is, and does, is decided in `judges` and `runs`.
"""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
