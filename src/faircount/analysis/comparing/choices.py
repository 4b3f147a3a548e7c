"""The values that options of a comparison may have, the default first. Nothing is imported: parsing needs them."""

MATCHES = ("auto", "prompt", "id")
"""What --match may be: id and prompt together, the id alone, or the id alone where prompts hardly match."""
