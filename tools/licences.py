"""Lists the licences of what Faircount needs, from the metadata of the locked packages, in docs/reference/licences.md.

Run: .venv/bin/python -m tools.licences
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "licences.md"
LOCK = ROOT / "requirements" / "run.lock"

_HEAD = """\
# Licences

Faircount is licensed under [Apache-2.0](../../LICENSE). These are the packages that it needs to run, those of the
extras `gz`, `view`, `xlsx` and `zst`, and those that build it from a checkout, each with the licence that it states.
`tools/licences.py` generates this page.

| package | licence | needed for |
|---|---|---|
"""
_SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_NAME = re.compile(r"^[A-Za-z0-9._-]+")


def locked() -> list[str]:
    """Return the names of the packages that are locked for running, in order."""
    return sorted(set(re.findall(r"^([a-z0-9-]+)(?:\[[^\]]*\])?==", LOCK.read_text(encoding="utf-8"), re.MULTILINE)))


def licence(name: str) -> str:
    """Return the licence that an installed package states."""
    about = metadata.metadata(name).json
    if expression := about.get("license_expression"):
        return str(expression)
    stated = [str(about.get("license") or "")]
    stated += [line.rpartition(" :: ")[2] for line in about.get("classifier", []) if line.startswith("License")]
    # Some give the whole text of their licence.
    names = [_SPDX.get(one, one) for one in stated if one and len(one) < 50]
    if not names:
        raise LookupError(f"{name} states no licence")
    return names[0]


def purposes() -> dict[str, str]:
    """Return what each package is needed for: to run, an extra, or to build."""
    wanted: dict[str, list[str]] = {"running": [], "building": ["hatchling", "editables"]}
    for requirement in metadata.requires("faircount") or []:
        extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
        if extra is None or extra[1] in ("gz", "view", "xlsx", "zst"):
            wanted.setdefault(f"the extra `{extra[1]}`" if extra else "running", []).append(requirement)
    found: dict[str, str] = {}
    for purpose in sorted(wanted, key=lambda purpose: (purpose != "running", purpose == "building", purpose)):
        for requirement in wanted[purpose]:
            _add(requirement, purpose, found)
    return found


def _add(requirement: str, purpose: str, found: dict[str, str]) -> None:
    match = _NAME.match(requirement)
    name = match[0].lower().replace("_", "-") if match else ""
    if name in locked() and name not in found:
        found[name] = purpose
        for needed in metadata.requires(name) or []:
            if "extra ==" not in needed:
                _add(needed, purpose, found)


def page() -> str:
    """Return the page."""
    needed = purposes()
    return _HEAD + "".join(f"| {name} | {licence(name)} | {needed[name]} |\n" for name in locked())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
