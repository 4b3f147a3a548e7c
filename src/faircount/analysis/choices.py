"""The values that an option may have, the default first. The command line needs them early: nothing is imported."""

DEFINITIONS = ("faircount", "spikee")
GUARDRAIL_MEANINGS = ("bypassed", "detected")
BLOCK_SIGNALS = ("verdict", "raised")
SORTS = ("rate", "total", "name", "shrunk")
CORRECTIONS = ("two-phase", "ppi")
"""How labels of a sample of the run correct its rate."""
EVIDENCE = ("successes", "failures", "errors", "blocks")
"""What --evidence may show."""
AUTO, NONE = "auto", "none"
"""What --cluster may be beside a field."""
ATTACKS = "attacks"
"""What --generalise may be beside a field."""
CUSTOM = "custom"
CATEGORIES = ("success", "failure", "fail", "errors", "error", "guardrail", "no-guardrail", CUSTOM)
"""What --category may be; fail and failure are one, errors and error, too."""
RANKED_BY = (
    "hit_f1",
    "hit_precision",
    "hit_recall",
    "pass_f1",
    "pass_precision",
    "pass_recall",
    "accuracy",
    "balanced_accuracy",
    "mcc",
)
"""What judges may be ranked by."""
REPORT_LAYOUTS = ("per-case", "per-metric")
"""What --report-layout may be."""
