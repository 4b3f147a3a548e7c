"""REBEL: its metrics as judges, its ways to name a target, and test files that are written for it."""
