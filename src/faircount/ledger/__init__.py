"""The ledger: attempts and verdicts in columns, and the SQL that folds them into entries and tallies."""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
