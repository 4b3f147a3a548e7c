"""The ledger: attempts and verdicts in columns, and the SQL that folds them into entries and tallies."""
