"""The judges that compare strings: their verdict is no opinion, and a result file may name them.

They stand here by name alone, where an analysis can read them without loading a judge.
"""

STRING_JUDGES = {
    "canary": "canary.Canary",
    "contains": "strings.Contains",
    "exact": "strings.Exact",
    "startswith": "strings.StartsWith",
    "regex": "strings.Regex",
}
"""Short and canonical name."""
