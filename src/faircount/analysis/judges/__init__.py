"""How good judges are: measured against labels, ranked, and compared with each other."""
