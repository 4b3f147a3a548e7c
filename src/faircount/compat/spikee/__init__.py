"""spikee: its judges, target modules and attacks, from the installed package or from a workspace."""
