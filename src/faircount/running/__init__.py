"""Runs: cases sent to a target, every attempt judged as it arrives and kept in a journal before it counts."""
