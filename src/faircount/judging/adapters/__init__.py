"""Judges of other tools as judges of ours, where those tools are installed."""
