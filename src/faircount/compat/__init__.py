"""Everything that knows another tool's Python API: their judges, targets, attacks and test files as ours.

A tool is imported only where the user names something of its own, and only if it is installed.
"""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
