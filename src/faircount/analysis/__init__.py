"""Questions answered: ledgers in, analyses and reports out. Never prints and never opens a file for output."""
