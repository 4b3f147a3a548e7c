"""Imports point one way, nothing heavy loads early, the public names are complete."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import faircount
from faircount.app.cli.commands import ALL
from faircount.app.cli.parser import Noun

SOURCE = Path(faircount.__file__).parent

LAYERS = {
    "version": 0,
    "core": 0,
    "io": 1,
    "query": 1,
    "report": 1,
    "stats": 1,
    "chat": 2,
    "components": 2,
    "ledger": 2,
    "config": 3,
    "judges": 3,
    "readers": 3,
    "compat": 4,
    "runs": 4,
    "testing": 4,
    "analysis": 5,
    "cluster": 6,
    "app": 6,
    "app.notebook": 6,
    "app.cli": 7,
    "__init__": 8,
    "__main__": 8,
}
FORBIDDEN = {
    ("report", "stats"),
    ("report", "ledger"),
    ("report", "chat"),
    ("report", "components"),
    ("stats", "ledger"),
    ("ledger", "stats"),
}
HEAVY = (
    "numpy",
    "scipy",
    "duckdb",
    "_duckdb",
    "xxhash",
    "pandas",
    "rich",
    "xlsxwriter",
    "pyarrow",
    "zlib_ng",
    "zstandard",
    "aiohttp",
    "asyncio",
    "jsonschema",
    "obstore",
    "pyspark",
)


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts), path


def imports(path: Path, *, at_load: bool = False) -> set[str]:
    """Return the modules of ours that a module imports; `at_load` leaves out what functions import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(_loaded_nodes(tree)) if at_load else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("faircount"):
            inner = node.module.removeprefix("faircount").lstrip(".")
            for alias in node.names:
                candidate = f"{inner}.{alias.name}".lstrip(".")
                is_module = (SOURCE / Path(*candidate.split("."))).with_suffix(".py").exists()
                found.add(candidate if is_module else inner)
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("faircount.") for a in node.names if a.name.startswith("faircount.")}
    return found - {""}


def _loaded_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from ast.walk(node)


def package_of(module: str) -> str:
    first, *others = module.split(".")
    nested = ".".join([first, *others[:1]])
    return nested if nested in LAYERS else first


def test_every_module_belongs_to_a_package_with_a_layer() -> None:
    assert {package_of(name) for name, _ in modules()} == set(LAYERS)


@pytest.mark.parametrize(("name", "path"), list(modules()))
def test_no_module_imports_upwards(name: str, path: Path) -> None:
    for imported in imports(path):
        assert LAYERS[package_of(imported)] <= LAYERS[package_of(name)], f"{name} imports {imported}"
        assert (package_of(name), package_of(imported)) not in FORBIDDEN, f"{name} imports {imported}"


@pytest.mark.parametrize(("name", "path"), [found for found in modules() if package_of(found[0]) == "io"])
def test_records_know_nothing_of_who_reads_them(name: str, path: Path) -> None:
    higher = {
        imported
        for imported in imports(path, at_load=True)
        if LAYERS[package_of(imported)] >= LAYERS["io"] and package_of(imported) != "io"
    }
    assert not higher, name


@pytest.mark.parametrize(("name", "path"), [found for found in modules() if package_of(found[0]) != "ledger"])
def test_only_the_ledger_asks_in_sql(name: str, path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    asked = [ast.unparse(call) for call in calls if isinstance(call, ast.Attribute)]
    assert [call for call in asked if re.search(r"ledger\.(query|ask|arrays)$", call)] == [], name


def test_there_is_no_import_cycle() -> None:
    graph = {name: imports(path) for name, path in modules() if name not in ("__init__", "__main__")}
    graph = {name: {_existing(target, graph) for target in targets} for name, targets in graph.items()}
    visited: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in visited:
            for target in graph.get(name, set()) - {name}:
                visit(target, (*trail, name))
            visited.add(name)

    for name in graph:
        visit(name, ())


def _existing(target: str, graph: dict[str, set[str]]) -> str:
    return target if target in graph else f"{target}.__init__"


def test_the_public_names_are_sorted_small_and_complete() -> None:
    names = dir(faircount)
    assert names == sorted(names)
    assert len(names) <= 55
    for name in names:
        assert not isinstance(getattr(faircount, name), ModuleType), f"{name} is hidden by a module of that name"


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'secret'"):
        _ = getattr(faircount, "secret")  # noqa: B009


WITH_PUBLIC_NAMES = [
    name.removesuffix(".__init__")
    for name, path in modules()
    if re.search(r"^(__all__ = |__getattr__, __dir__ = names_of\()", path.read_text(), re.M)
]


@pytest.mark.parametrize("name", WITH_PUBLIC_NAMES)
def test_public_names_of_a_module_exist(name: str) -> None:
    module = importlib.import_module("faircount" if name == "__init__" else f"faircount.{name}")
    assert module.__all__
    public = {name: getattr(module, name) for name in module.__all__}
    assert [name for name, found in public.items() if isinstance(found, ModuleType)] == []
    assert len(set(module.__all__)) == len(module.__all__)


def test_every_package_has_public_names() -> None:
    packages = {name for name in LAYERS if (SOURCE / name.replace(".", "/")).is_dir()} - {"app.cli"}
    assert {"__init__", *packages} <= set(WITH_PUBLIC_NAMES)


COMMANDS = [
    [*([one.name] if isinstance(one, Noun) else []), command.name, "--help"]
    for one in ALL
    for command in (one.commands if isinstance(one, Noun) else [one])
]


@pytest.mark.parametrize("words", [["--help"], ["--version"], *COMMANDS, ["nonsense"]], ids=" ".join)
def test_help_and_mistakes_are_answered_without_heavy_imports(words: list[str]) -> None:
    heavy = HEAVY if words in COMMANDS else (*HEAVY, "msgspec")
    script = (
        "import sys\nfrom faircount.app.cli import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_small_file_is_analysed_without_numpy(tmp_path: Path) -> None:
    path = tmp_path / "results_small.jsonl"
    path.write_text('{"id": 1, "success": true}\n', encoding="utf-8")
    script = (
        "import sys\nfrom faircount.app.cli import main\n"
        f"assert main(['results', 'analyze', {str(path)!r}]) == 0\n"
        "print([n for n in ('numpy', 'scipy', 'duckdb', 'pandas', 'rich') if n in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_importing_the_package_costs_nothing() -> None:
    script = f"import sys, faircount; print([n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_analysis_loads_neither_judges_nor_gates_nor_runs(tmp_path: Path) -> None:
    (tmp_path / "results_x.jsonl").write_text('{"id": 1, "success": true, "input": "p", "response": "r"}\n')
    code = (
        "import sys\n"
        "from faircount.app.cli import main\n"
        "main(['results', 'analyze', 'results_x.jsonl'])\n"
        "packages = ('faircount.judges', 'faircount.chat', 'faircount.runs', 'faircount.analysis.gates')\n"
        "print(sorted(name for name in sys.modules if name.startswith(packages)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
