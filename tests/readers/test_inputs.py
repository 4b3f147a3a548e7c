"""Which files are meant: folders by their content, files of other tools by name, fields that no file has."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from faircount.readers import Probe, ReadAs, Reader, expand, not_read, recognise
from tests.conftest import Cli

ROW = {"id": 1, "long_id": "a", "input": "x", "response": "y", "success": True, "lang": "en", "team": "red"}
JOURNAL = {"kind": "run", "schema": 1, "aim": "attack", "target": "t"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three results under names of all kinds, and with other files."""
    (tmp_path / "anything.txt").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "packed.bin").write_bytes(gzip.compress(json.dumps({**ROW, "id": 2}).encode()))
    (tmp_path / "damaged.jsonl").write_text("{torn\n" + json.dumps({**ROW, "id": 3}) + "\n")
    (tmp_path / "dataset.jsonl").write_text(json.dumps({"id": 1, "text": "attack"}) + "\n")
    (tmp_path / "notes.md").write_text("# notes\n")
    (tmp_path / "eval.yaml").write_text("evalId: x\nresults:\n  version: 3\n")
    (tmp_path / "table.csv").write_text("id,prompt,jailbroken\n1,x,true\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    (tmp_path / ".hidden").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "inner").mkdir()
    return tmp_path


def test_a_folder_gives_its_results_by_content_and_lists_the_rest_once(folder: Path, cli: Cli) -> None:
    ran = cli("results", "analyze", str(folder), "--output-format", "json")
    assert ran.code == 0
    names = [Path(analysis["sources"][0]["path"]).name for analysis in json.loads(ran.out)["analyses"]]
    assert names == ["anything.txt", "damaged.jsonl", "packed.bin"]
    assert ran.err == (
        f"faircount: {folder}: skipped, not result files: dataset.jsonl, eval.yaml, notes.md and 2 more\n"
    )


@pytest.mark.parametrize("words", [("check",), ("show", "1"), ("compare",), ("extract",), ("export",)])
def test_every_command_takes_a_folder(folder: Path, cli: Cli, words: tuple[str, ...]) -> None:
    written = ("-o", str(folder / "inner" / "out.csv")) if words[0] in ("extract", "export") else ()
    ran = cli("results", *words, str(folder), *written)
    assert ran.code in (0, 1), ran.err
    assert "skipped, not result files" in ran.err


def test_a_run_in_a_folder_is_found_whatever_its_name(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": 1, "text": "Say hello"}\n')
    (tmp_path / "runs").mkdir()
    journal = tmp_path / "runs" / "whatever"
    ran = cli(
        "run", str(tmp_path / "q.jsonl"), "--target", "simulated:assistant", "--no-judge", "--journal", str(journal)
    )
    assert ran.code == 0, ran.err
    assert cli("results", "analyze", str(tmp_path / "runs")).code == 0


def test_a_folder_without_results_is_an_error_that_names_what_is_there(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "notes.md").write_text("# notes\n")
    ran = cli("results", "analyze", str(tmp_path))
    assert (ran.code, ran.err) == (3, f"faircount: {tmp_path}: no result files, only notes.md\n")


TOOLS = {
    "promptfoo": {"promptfoo"},
    "inspect": {"inspect"},
    "pyrit": {"PyRIT", "PyRIT export"},
    "lm-eval": {"lm-eval"},
    "deepeval": {"DeepEval"},
    "deepteam": {"DeepTeam"},
    "agentdojo": {"AgentDojo"},
    "jailbreakbench": {"JailbreakBench"},
    "harmbench": {"HarmBench"},
    "openai-evals": {"OpenAI evals"},
    "garak/reports": {"garak", "garak hit log"},
    "rebel": {"REBEL report"},
    "spikee/ws": {"spikee"},
}
NOT_RESULTS = ("README.md", "oracle.json", "attack-info.json", "redteam_generated.yaml")
REFUSED = ("eval.csv", "eval.yaml", "scorer_", "results_", "results.json")


@pytest.mark.shared
@pytest.mark.parametrize("place", TOOLS)
def test_every_file_of_a_tool_is_recognised_by_its_reader_alone(shared: Path, place: str) -> None:
    files = [path for path in sorted((shared / "golden" / place).rglob("*")) if path.is_file()]
    read = set()
    for path in files:
        if path.name in NOT_RESULTS or path.suffix in (".log", ".html", ".xlsx", ".py", ".toml", ".txt"):
            continue
        if path.name.startswith(REFUSED) and place in ("promptfoo", "pyrit", "lm-eval"):
            continue
        with path.open("rb") as file:
            read.add(recognise(Probe(file.read(65536), str(path)), str(path)).name)
    assert read == TOOLS[place]


@pytest.mark.parametrize("start", [b"", b"{", b"[", b"[[[", b'{"entry_type', b"[1, 2]", b"null", b'{"a": {"b": "\\"}'])
def test_the_beginning_of_a_file_may_be_anything(start: bytes) -> None:
    assert not_read(start) == ""
    assert isinstance(recognise(Probe(start), "x"), Reader)


def test_a_long_document_is_recognised_by_its_first_keys() -> None:
    start = b'{\n  "version": 2,\n  "status": "success",\n  "eval": {"task": "' + b"x" * 70_000
    assert recognise(Probe(start[:65536]), "x").name == "inspect"


@pytest.mark.parametrize("command", [("analyze",), ("extract", "-o", "{}"), ("export", "--to", "csv", "-o", "{}")])
def test_where_refuses_a_field_that_no_file_has(tmp_path: Path, cli: Cli, command: tuple[str, ...]) -> None:
    path = tmp_path / "results_x.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps({**ROW, "id": 2, "late": 1}) + "\n")

    def run(query: str) -> tuple[int, str]:
        words = [word.format(tmp_path / "out") for word in command]
        ran = cli("results", words[0], str(path), *words[1:], "--where", query)
        (tmp_path / "out").unlink(missing_ok=True)
        return ran.code, ran.err

    assert run("tem = red") == (2, "faircount: --where: no file has a field tem; did you mean team?\n")
    code, told = run("lang = en or zzz = 1")
    assert code == 2 and "no file has a field zzz; available: id, input, lang," in told
    # Fields that come late, that spikee knows, or that are asked for by `exists` are no mistake.
    for query in ("late = 1", "team = red", "suffix_id = x", "not zzz exists", "line = 1"):
        assert run(query)[0] == 0, query


def test_runs_whose_names_a_path_cannot_hold_are_read_apart_and_a_run_that_is_not_there_is_refused(
    tmp_path: Path, cli: Cli
) -> None:
    path, names = tmp_path / "t.csv", ("file:///bots/weak.js", "/file:/bots//weak.js", "../up", "")
    rows = [f"{number},{name},{number % 2}" for name in names for number in range(3)]
    path.write_text("\n".join(["case,model,jailbroken", *rows]) + "\n")
    found = expand([str(path)], ReadAs(columns=("id=case", "target=model", "success=jailbroken")))
    assert len(found) == len(set(found)) == len(names)
    ran = cli("results", "analyze", str(path), "--map", "target=model", "--output-format", "json")
    assert [analysis["entries"]["total"] for analysis in json.loads(ran.out)["analyses"]] == [3] * len(names)
    ran = cli("results", "analyze", f"{path}/nobody", "--map", "target=model")
    assert (ran.code, "holds no run called nobody; its runs: file:/bots/weak.js" in ran.err) == (3, True)
