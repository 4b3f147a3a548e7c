"""Dynamic attacks: what is sent when an entry's own prompt did not succeed, one iteration after the other."""
