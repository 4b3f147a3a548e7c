"""What is to become less: each count may fall and never rise. Lower it here when it has fallen."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.test_architecture import SOURCE, imports, modules, package_of

_SQL = re.compile(r"\b(SELECT\s|INSERT INTO\s|CREATE (OR REPLACE )?(TEMP )?(TABLE|VIEW)\s|COPY \()")
_AT_HOME_WITH_SPIKEE = ("readers.spikee", "readers.registry", "compat.", "core.definition")
_DOCUMENT = re.compile(r"(^|_)(document|data)$")


@cache
def _trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text("utf-8")) for name, path in modules()}


@cache
def _every_node() -> list[tuple[str, ast.AST]]:
    return [(name, node) for name, tree in _trees().items() for node in ast.walk(tree)]


def _nodes(*left_out: str) -> Iterator[tuple[str, ast.AST]]:
    return ((name, node) for name, node in _every_node() if package_of(name) not in left_out)


@cache
def _imports(path: Path) -> set[str]:
    return imports(path)


def sql_outside_the_ledger() -> int:
    """Texts of SQL in other packages; what writes Parquet files hands its engine two."""
    return sum(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_SQL.search(node.value))
        for name, node in _nodes("ledger", "judges")
        if name != "report.parquet"
    )


def modules_that_mention_spikee() -> int:
    """Modules other than its reader, the definitions, and what knows its Python API; the rest is words for users."""
    texts = [path.read_text("utf-8") for name, path in modules() if not name.startswith(_AT_HOME_WITH_SPIKEE)]
    return sum("spikee" in text.lower() for text in texts)


def imports_of_spikee_in_analysis() -> int:
    found = [_imports(path) for name, path in modules() if package_of(name) == "analysis"]
    return sum(any(imported.startswith("readers.spikee") for imported in one) for one in found)


def _with_namespace(*left_out: str) -> int:
    functions = [node for _, node in _nodes(*left_out) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    taken = [[*node.args.args, *node.args.kwonlyargs] for node in functions]
    return sum(any(a.annotation and "Namespace" in ast.unparse(a.annotation) for a in one) for one in taken)


def functions_that_take_a_namespace() -> int:
    return _with_namespace()


def functions_outside_the_command_line_that_take_a_namespace() -> int:
    return _with_namespace("app.cli")


def documents_written_by_hand() -> int:
    """Functions that write a result once more, as the dictionary for its JSON document; garak's summary is garak's."""
    functions = [
        node for name, node in _nodes("runs") if isinstance(node, ast.FunctionDef) and name != "analysis.judges.summary"
    ]
    return sum(bool(_DOCUMENT.search(node.name)) and "dict" in ast.unparse(node.returns or node) for node in functions)


def figures_found_in_words() -> int:
    """Places that look into the method of an estimate, which is text for people, to find something out."""
    looking = {name for name, path in modules() if ".method" in path.read_text("utf-8")}
    return sum(
        isinstance(node, ast.Call | ast.Compare)
        and bool(re.search(r"(?<!correction)\.method\b(?!\()", ast.unparse(_looked_at(node))))
        for name, node in _nodes("app.cli", "runs", "report")
        if name in looking
    )


def _looked_at(node: ast.Call | ast.Compare) -> ast.expr:
    """Return what a search in a text looks at; to be equal to a method's name is no search."""
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant):
        return ast.Tuple([node.left, *node.comparators], ast.Load())
    reading = {"removeprefix", "partition", "rpartition", "split", "startswith", "endswith", "search", "match"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in reading:
        return ast.Tuple([node.func.value, *node.args], ast.Load())
    return ast.Constant(None)


def modules_with_one_importer() -> int:
    importers = Counter(imported for _, path in modules() for imported in _imports(path))
    return sum(importers[name] == 1 for name, _ in modules() if not name.endswith("__init__"))


def class_names_that_mean_several_classes() -> int:
    names = Counter(node.name.lstrip("_") for _, node in _nodes() if isinstance(node, ast.ClassDef))
    return sum(count > 1 for count in names.values())


def number_of_modules() -> int:
    return len(_trees())


def lines() -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for _, path in modules())


def names_that_tests_take_from_inside_packages() -> int:
    """Names that tests import from a module of a package, not from the package."""
    return sum(_taken_from_inside(path) for path in Path(__file__).parent.rglob("*.py"))


def _taken_from_inside(path: Path) -> int:
    found = 0
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("faircount."):
            module = str(node.module).removeprefix("faircount.")
            home, inside = SOURCE / package_of(module).replace(".", "/"), module != package_of(module)
            if home.is_dir():
                modules_of_it = [a for a in node.names if (home / f"{a.name}.py").exists() or (home / a.name).is_dir()]
                found += len(node.names) if inside else len(modules_of_it)
    return found


RATCHETS: dict[Callable[[], int], tuple[int, int]] = {
    sql_outside_the_ledger: (0, 0),
    modules_that_mention_spikee: (13, 13),
    imports_of_spikee_in_analysis: (0, 0),
    functions_that_take_a_namespace: (6, 6),
    functions_outside_the_command_line_that_take_a_namespace: (0, 0),
    documents_written_by_hand: (0, 0),
    figures_found_in_words: (0, 0),
    modules_with_one_importer: (52, 25),
    class_names_that_mean_several_classes: (8, 8),
    number_of_modules: (303, 200),
    names_that_tests_take_from_inside_packages: (232, 100),
}
"""Each count as it is, and where it is to end."""


def test_the_lines_of_the_package_do_not_become_more() -> None:
    assert lines() <= 97_141


def test_counts_only_fall() -> None:
    found = {count.__name__: count() for count in RATCHETS}
    known = {count.__name__: limit for count, (limit, _) in RATCHETS.items()}
    assert all(limit >= target for limit, target in RATCHETS.values())
    assert {name: (known[name], now) for name, now in found.items() if now > known[name]} == {}
    assert found == known, "some have fallen: lower them here"
