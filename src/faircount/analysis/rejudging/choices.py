"""The values that options of `results rejudge` may have. Imports nothing."""

AUTO, LAST, EACH = "auto", "last", "each"
TURNS = (AUTO, LAST, EACH)
