"""Readers: bytes in, ledger batches and findings out. Nothing here executes code that a file names."""
