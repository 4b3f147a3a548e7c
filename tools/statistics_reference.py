"""Writes docs/reference/statistics.md from the docstrings of `faircount.stats`; a test fails when the page is stale.

Run: .venv/bin/python -m tools.statistics_reference
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

from faircount import stats

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "statistics.md"
HEAD = """\
# Statistics

`faircount.stats` has the statistics as pure functions: counts and arrays go in, estimates come out.
`help(stats.wilson)` shows formula, limits and sources. `tools/statistics_reference.py` generates this page.

```python
from faircount import stats

rate = stats.wilson(13, 80)
print(f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}] of {rate.n} by {rate.method}")

families = stats.cluster_wilson([4, 0, 3, 0, 1, 0], [4, 4, 4, 4, 4, 4])
print(f"{families.estimate.n} entries, worth about {families.effective_n:.0f}")

difference = stats.tango(41, 9, 956)
print(f"{difference.value:+.1%} [{difference.low:+.1%}, {difference.high:+.1%}], p {stats.mcnemar(41, 9).p:.6f}")
```

- An `Estimate` has `value`, `low`, `high`, `n`, `unit`, `level` and `method`. Undefined values are `None`, never 0.
- `level=` sets the confidence level (default 0.95), `unit=` names what is counted, `seed=` the random draws.
- Impossible input raises `ValueError`.
"""
TITLES = {
    "proportion": "One rate",
    "clusters": "Families of variants",
    "design": "Designs and strata",
    "attempts": "Success within k attempts",
    "comparison": "Comparisons and multiple tests",
    "slices": "Many slices",
    "planning": "Sample sizes and power",
    "gates": "Gates and sequential tests",
    "detectors": "Detector metrics",
    "operating": "Thresholds of scores",
    "detector_bootstrap": "Intervals of detector metrics",
    "agreement": "Agreement of judges",
    "judge_error": "Correction for judge errors",
    "corrector": "Correctors",
    "labelling": "Sequential labelling",
    "verdict_quality": "Quality of verdicts from a sample of labels",
    "distributions": "Distributions",
    "retries": "Repeated attempts",
}


def page() -> str:
    """Return the text of the reference page."""
    return "\n".join([HEAD, *(_section(home, title) for home, title in TITLES.items())])


def _section(home: str, title: str) -> str:
    module = importlib.import_module(f"faircount.stats.{home}")
    # The status of a correction is a word of the model, explained where it is used.
    own = {module.__name__, "faircount.core.model"} if home == "judge_error" else {module.__name__}
    here = [name for name in dir(stats) if getattr(getattr(module, name, None), "__module__", "") in own]
    lines = [f"- `{name}`: {_summary(getattr(module, name))}" for name in here]
    return "\n".join([f"## {title}", "", *lines, ""])


def _summary(thing: object) -> str:
    """Return the first clause of a docstring, up to a semicolon.

    A clause without its verb is what a function returns or estimates.
    """
    text = inspect.getdoc(thing) or ""
    clause = text.partition("\n")[0].removesuffix(".").partition("; ")[0]
    clause = clause.removeprefix("Return ").removeprefix("Estimate ")
    first, _, rest = clause.partition(" ")
    # Names, such as DeLong's or J, keep their capitals.
    if first != "A" and (not first[1:].islower() or first.endswith("'s")):
        return clause
    return f"{first.lower()} {rest}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
