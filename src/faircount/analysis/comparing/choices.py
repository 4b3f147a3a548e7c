"""The values that options of a comparison may have, the default first. Nothing is imported: parsing needs them."""

MATCHES = ("content", "id")
"""What --match may be: id and prompt together, or the id alone."""
