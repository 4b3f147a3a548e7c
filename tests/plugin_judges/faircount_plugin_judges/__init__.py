"""A judge for Faircount, in a package of its own."""
