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

`faircount.stats` holds the statistics as pure functions: counts and arrays go in, estimates come out. They know nothing
of files. This page is made from their docstrings by `tools/statistics_reference.py`; `help()` shows each in full, with
its formula and its reference.

```python
from faircount import stats

rate = stats.wilson(13, 80)
print(f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}] of {rate.n} by {rate.method}")

families = stats.cluster_wilson([4, 0, 3, 0, 1, 0], [4, 4, 4, 4, 4, 4])
print(f"{families.estimate.n} entries, worth about {families.effective_n:.0f}")

difference = stats.tango(41, 9, 956)
print(f"{difference.value:+.1%} [{difference.low:+.1%}, {difference.high:+.1%}], p {stats.mcnemar(41, 9).p:.6f}")
```

- A result with an interval is an `Estimate`: `value`, `low`, `high`, `n`, `unit`, `level`, `method`. What the data do
  not define is `None`, never 0.
- `level=` sets the confidence level (0.95), `unit=` names what is counted.
- Nothing is random unless a function says so; then `seed=` makes it repeatable, and the default seed always does.
- Impossible input is a `ValueError` that says what is wrong.
- A name is loaded when it is first used. Only resampling needs numpy, and nothing needs scipy.
"""
TITLES = {
    "proportion": "One rate",
    "clusters": "Rates over families of variants",
    "design": "Rates and differences by how entries hang together",
    "attempts": "Success within k attempts",
    "comparison": "Comparing targets, and many tests at once",
    "slices": "Many slices",
    "planning": "How many entries",
    "gates": "Gates, looking while it runs, and how many more entries decide",
    "detectors": "Detectors against labels, by their verdicts and scores",
    "detector_bootstrap": "Intervals of detector metrics",
    "agreement": "Agreement of judges",
    "judge_error": "Rates and differences corrected for the judge",
    "corrector": "One corrector for a whole report",
    "labelling": "Labels given one after the other",
    "verdict_quality": "A judge on all entries of a run, by labels of some",
    "distributions": "Distributions",
    "retries": "Repeated attempts, and many scores into one",
}


def page() -> str:
    """Return the text of the reference page."""
    return "\n".join([HEAD, *(_section(home, title) for home, title in TITLES.items())])


def _section(home: str, title: str) -> str:
    module = importlib.import_module(f"faircount.stats.{home}")
    # What corrections tell of a judge is a word of the model, explained where it is used.
    own = {module.__name__, "faircount.core.model"} if home == "judge_error" else {module.__name__}
    here = [name for name in dir(stats) if getattr(getattr(module, name, None), "__module__", "") in own]
    lines = [f"## {title}", "", "| name | what it does |", "|---|---|"]
    lines += [f"| `{name}` | {_first_line(getattr(module, name))} |" for name in here]
    return "\n".join([*lines, ""])


def _first_line(thing: object) -> str:
    """Return the first line of a docstring, which is a sentence, fit for a table."""
    return (inspect.getdoc(thing) or "").partition("\n")[0].removesuffix(".").replace("|", "\\|")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
