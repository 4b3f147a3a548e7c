"""Runs the steps of a composite GitHub Action, or the script of a GitLab job, as a runner would: in bash, for real.

Only the expressions that the action uses are understood: names with dots, texts in quotes, `==`, `!=` and `&&`. Steps
that use another action are not run; what they would have been given is kept.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@dataclass
class Job:
    """What became of the steps of an action."""

    code: int = 0
    log: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    used: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Runner:
    """A machine that runs actions: where a job works, and where temporary files are."""

    workspace: Path
    temporary: Path
    environment: Mapping[str, str]
    provided: Mapping[str, dict[str, str]]
    """The outputs of steps that use another action, by their ids."""

    def run(self, action: Path, inputs: Mapping[str, str], after: Callable[[str], None] = lambda _: None) -> Job:
        """Run an action; `after` is called with the name of each step that has run."""
        document = yaml.safe_load(action.read_text(encoding="utf-8"))
        unknown = inputs.keys() - document["inputs"].keys()
        assert not unknown, f"no such inputs: {unknown}"
        known = {f"inputs.{name}": str(given.get("default", "")) for name, given in document["inputs"].items()}
        known |= {f"inputs.{name}": value for name, value in inputs.items()}
        known |= {"github.action_path": str(action.parent), "runner.temp": str(self.temporary)}
        job = Job()
        summary = self.temporary / "summary.md"
        summary.touch()
        for number, step in enumerate(document["runs"]["steps"]):
            # As on GitHub, a step whose condition asks for nothing else runs only while all have succeeded.
            if job.code or not _is_true(step.get("if", "'yes'"), known):
                continue
            if "uses" in step:
                job.used[step["uses"]] = {name: _filled(value, known) for name, value in step["with"].items()}
                given = self.provided.get(step.get("id", ""), {})
            else:
                given = self._step(step, number, known, job, summary)
            known |= {f"steps.{step.get('id')}.outputs.{name}": value for name, value in given.items()}
            after(step.get("name", ""))
        job.summary = summary.read_text(encoding="utf-8")
        job.outputs = {name: _filled(output["value"], known) for name, output in document["outputs"].items()}
        return job

    def _step(
        self, step: dict[str, Any], number: int, known: Mapping[str, str], job: Job, summary: Path
    ) -> dict[str, str]:
        assert step["shell"] == "bash"
        outputs = self.temporary / f"outputs-{number}"
        outputs.touch()
        variables = {name: _filled(value, known) for name, value in step.get("env", {}).items()}
        files = {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTIONS": "true"}
        job.code, text = self.script(step["run"], {**variables, **files})
        job.log += text
        return _outputs(outputs.read_text(encoding="utf-8"))

    def script(self, text: str, variables: Mapping[str, str]) -> tuple[int, str]:
        """Run a script as runners do, and return its exit code and what it wrote."""
        assert "${{" not in text, "a value would become part of the script"
        path = self.temporary / "script.sh"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", path],
            cwd=self.workspace,
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def run_gitlab(self, file: Path, job: str, variables: Mapping[str, str]) -> tuple[int, str]:
        """Run the script of a job for GitLab, whose lines are one script there, too."""
        document = yaml.safe_load(file.read_text(encoding="utf-8"))[job]
        return self.script("\n".join(document["script"]), {**document["variables"], **variables})


def _filled(text: str, known: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda found: _value(found[1], known), str(text))


def _value(word: str, known: Mapping[str, str]) -> str:
    if word.startswith("'"):
        return word.strip("'")
    assert re.fullmatch(r"(inputs|github|runner|steps)(\.[a-z_-]+)+", word), f"not understood: {word}"
    # An output that a step did not set is empty.
    return known.get(word, "") if word.startswith("steps.") else known[word]


def _is_true(condition: str, known: Mapping[str, str]) -> bool:
    for part in condition.split(" && "):
        left, sign, right = (*part.partition(" == "),) if " == " in part else (*part.partition(" != "),)
        if not sign:
            true = _value(left, known) not in ("", "false")
        else:
            true = (_value(left, known) == _value(right, known)) is (sign == " == ")
        if not true:
            return False
    return True


def _outputs(text: str) -> dict[str, str]:
    """Return what a step wrote for those after it: `name=value`, or `name<<END`, lines and END."""
    found, lines = {}, iter(text.splitlines())
    for line in lines:
        name, sign, end = line.partition("<<")
        if not sign:
            name, _, found[name] = line.partition("=")
            continue
        value = []
        for one in lines:
            if one == end:
                break
            value.append(one)
        else:
            raise AssertionError(f"the value of {name} has no end")
        found[name] = "\n".join(value)
    return found


def environment_of(folder: Path) -> dict[str, str]:
    """Return an environment for jobs: the machine's programs, a home of their own, and nothing of a CI."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "SSL_CERT_FILE")}
    return {**kept, "HOME": str(folder), "PYTHONUTF8": "1", "COLUMNS": "100"}


def runner_with_faircount(folder: Path, workspace: Path) -> Runner:
    """Return a machine whose environments have this Faircount; what their pip is asked for is noted in `installed`."""
    temporary, program = folder / "runner", folder / "python"
    temporary.mkdir()
    program.write_text(
        f"""#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@" > "{folder}/installed"\\n' > "$3/bin/python"
printf '#!/bin/sh\\nexec "{sys.executable}" -m faircount "$@"\\n' > "$3/bin/faircount"
chmod +x "$3/bin/python" "$3/bin/faircount"
""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return Runner(workspace, temporary, environment_of(folder), {"python": {"python-path": str(program)}})
