"""What the pages about judges show is what there is: files as they are, and every judge with every parameter."""

from __future__ import annotations

import json
import re
from inspect import Parameter
from pathlib import Path

import pytest

from faircount.components import BuiltIn
from faircount.judges import JUDGES, parameters_of

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "guides" / "write-a-judge.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
REFERENCE = ROOT / "docs" / "reference" / "judges.md"
SHOWN = re.compile(r"`(docs/samples/[^`]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WRITTEN_OUT = {("secret-leak", "kinds"): "all but `email` and `phone`"}


def test_sample_files_are_shown_as_they_are() -> None:
    shown = [file for page in PAGES for file in SHOWN.findall(page.read_text(encoding="utf-8"))]
    files = {"judges.toml", "my_judges.py", "bench.toml", "target.toml"}
    assert {f"docs/samples/{name}" for name in files} <= {name for name, _ in shown}
    for name, content in shown:
        assert content == (ROOT / name).read_text(encoding="utf-8"), name


def test_the_package_in_the_guide_is_the_one_that_the_tests_install() -> None:
    package = (ROOT / "tests" / "plugin_judges" / "pyproject.toml").read_text(encoding="utf-8")
    without_comments = "".join(line for line in package.splitlines(keepends=True) if not line.startswith("#"))
    assert f"```toml\n{without_comments}```" in GUIDE.read_text(encoding="utf-8")


def section(judge: BuiltIn) -> str:
    text = REFERENCE.read_text(encoding="utf-8")
    return re.split(r"^#{2,3} ", text.split(f"\n### {judge.short}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def default_of(judge: BuiltIn, parameter: Parameter) -> str:
    if (judge.short, parameter.name) in WRITTEN_OUT:
        return WRITTEN_OUT[judge.short, parameter.name]
    return "" if parameter.default is Parameter.empty else json.dumps(parameter.default)


@pytest.mark.parametrize("judge", JUDGES.known, ids=lambda judge: str(judge.short))
def test_the_reference_has_every_judge_with_its_parameters_and_defaults(judge: BuiltIn) -> None:
    text = section(judge)
    assert f"`{judge.name}`" in text
    rows = [
        tuple(cell.strip() for cell in line.split("|")[1:3]) for line in text.splitlines() if line.startswith("| `")
    ]
    assert rows == [(f"`{one.name}`", default_of(judge, one)) for one in parameters_of(judge.load())]
