"""A judge, a target, an attack and a reader for Faircount, in a package of its own."""
