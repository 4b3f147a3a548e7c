"""The ledger in memory: DuckDB, in process, given typed numbers only, never raw JSON and never a record's text.

Few rows go in one by one; many go in as numpy arrays, which costs two imports and pays for them from some ten
thousand rows on.
"""

from __future__ import annotations

import pkgutil
import re
import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any, Protocol

from msgspec import Struct

from faircount.core.definition import FAIRCOUNT, Definition
from faircount.core.model import Outcome
from faircount.core.outcomes import PRECEDENCE
from faircount.core.workers import Answered, Beside
from faircount.ledger import engine
from faircount.ledger.engine import DuckDB, Engine, StoredTables, table_file
from faircount.ledger.questions import Question, Rows
from faircount.ledger.schema import (
    FACET,
    OUTCOME_NUMBER,
    TABLES,
    TYPE_CODES,
    Fields,
    Kind,
    Lexicon,
    RowMark,
    Tables,
    columns_of,
    fields_together,
    joined,
    kind_of,
    lexicon_of,
    rows_of,
    sql_names,
    word_of,
)

LINE_BITS = 43
"""A row is known by `ord`: the number of its source, and so many bits for its line."""

ONE_BY_ONE_UP_TO_ROWS = 16_000
ONE_THREAD_UP_TO_ROWS = 500_000
UNPLANNED_UP_TO_ROWS = 4_000
"""Of so few rows, improving the plan of a question takes longer than the question."""
FOLDED = ("counted_row", "entry", "row_history", "every_case", "category", "verdict")
"""What questions are asked of when the rows are folded."""

_OF_ENTRIES = {
    "entry_attack": """
        SELECT
            attack,
            entry_key,
            MIN(source) AS source,
            BOOL_OR(succeeded) AS won,
            BOOL_AND(blocked) AS all_blocked,
            CAST(SUM(requests) AS BIGINT) AS requests,
            CAST(SUM(blocks) AS BIGINT) AS blocks
        FROM counted_row
        WHERE is_attack
        GROUP BY attack, entry_key
    """,
    "entry_category": """
        SELECT c.category, t.entry_key, MIN(t.source) AS source, BOOL_OR(t.blocked) AS flagged
        FROM category AS c
        INNER JOIN counted_row AS t ON c.ord = t.ord
        GROUP BY c.category, t.entry_key
    """,
}
"""What each dynamic attack did to an entry, and what guardrails named in it."""

_FLAGS_OF_ENTRIES = ("has_standard", "initial_success", "guardrail_any", "won", "all_blocked", "flagged")
_NUMBERS_OR_NONE = ("attack", "attack_name", "category", "family")

_PLACES = {
    "counted_row": "ord",
    "entry": "first_ord",
    "row_history": "ord",
    "every_case": "case_ord",
    "category": "ord",
    "verdict": "ord",
    "attempt": "ord",
    "history": "ord",
}
"""Tables that are asked, and the column that says where a row of theirs stands."""

GIVEN = "(SELECT UNNEST(CAST(? AS BIGINT[])))"
"""The numbers of a list that is one parameter of a statement."""

_CHOSEN = "WHERE line IN (SELECT ord FROM chosen_row)"

_JUDGED = f"{OUTCOME_NUMBER[Outcome.SUCCESS]}, {OUTCOME_NUMBER[Outcome.FAILURE]}"
JUDGE_FIELD = "judge_name"
"""The facet that names the judge of a row with one verdict."""

ANY, ALL, MAJORITY = "any", "all", "majority"
TOGETHER = {
    ANY: "CASE WHEN MAX(decision) = 1 THEN 1 ELSE MIN(decision) END",
    ALL: "CASE WHEN MAX(CASE WHEN decision = 0 THEN 1 ELSE 0 END) = 1 THEN 0 ELSE MIN(decision) END",
    MAJORITY: """CASE
        WHEN 2 * SUM(CASE WHEN decision = 1 THEN 1 ELSE 0 END) > COUNT(*) THEN 1
        WHEN 2 * SUM(CASE WHEN decision = 0 THEN 0 ELSE 1 END) <= COUNT(*) THEN 0
        ELSE -1
    END""",
}
"""What several judges decide together, where -1 is undecided: only what the undecided could not change is decided."""

SEVERAL_ATTACKS = -1
"""Stands for the name of the attack where several were tried on an entry."""

_SQL_TYPES = {
    Kind.COUNT: "BIGINT",
    Kind.SMALL: "TINYINT",
    Kind.FLAG: "TINYINT",
    Kind.NUMBER: "DOUBLE",
    Kind.CHECKSUM: "BIGINT",
    Kind.WORD: "INTEGER",
    Kind.ID: "INTEGER",
}
_NOTHING_AS_NULL = {
    Kind.COUNT: "{0}",
    Kind.SMALL: "{0}",
    Kind.FLAG: "CASE WHEN {0} >= 0 THEN {0} = 1 END",
    Kind.NUMBER: "CASE WHEN NOT ISNAN({0}) THEN {0} END",
    Kind.CHECKSUM: "NULLIF({0}, 0)",
    Kind.WORD: "NULLIF({0}, 0)",
    Kind.ID: "NULLIF({0}, 0)",
}


def ord_of(source: int, line: int) -> int:
    """Return the number by which a line of a source is known."""
    return source << LINE_BITS | line


def source_and_line(ord_: int) -> tuple[int, int]:
    """Return the source and the line of a row."""
    return ord_ >> LINE_BITS, ord_ & ((1 << LINE_BITS) - 1)


class _Asking(Struct, frozen=True):
    """A question being asked beside others, over a connection of its own."""

    running: Beside[Any]
    engine: Engine

    def end(self) -> None:
        """Break the question off if it is still being asked."""
        if self.running.thread.is_alive():
            self.engine.interrupt()
        self.running.thread.join()
        self.engine.close()


class Ledger:
    """Rows of one or more sources, folded on request into entries."""

    def __init__(self, paths: Sequence[str], *, apart: bool = False) -> None:
        self.paths = list(paths)
        self.apart = apart
        """Whether each source is folded by itself, whatever is in the others; then each is asked as a `SourceView`."""
        self.fields_of: dict[int, Fields] = {}
        """The fields of each source's format."""
        self.place_of: dict[int, Callable[[str, int], str]] = {}
        """What makes `file:line` of a row of a source, where its format does not have lines."""
        self.facets: dict[str, str] = {}
        """The name of each facet's column in the engine."""
        self._facet_fields: dict[str, str] = {}
        self._columns: dict[str, dict[str, str]] = {}
        """The columns of each table that the rows came in, and our names for them."""
        self.rows = [0] * len(self.paths)
        self._parts: list[tuple[Tables, int]] = []
        self._stored: StoredTables | None = None
        self._words: dict[str, list[str | None]] = {}
        self._own_facets: dict[int, set[str]] = {}
        self._answers: dict[Question, Rows] = {}
        self._answers_apart: dict[Question, dict[int, Rows]] = {}
        self._seen_source: int | None = None
        self._seen: set[str] = set()
        self._askings: list[_Asking] = []
        self._engines: dict[int, Engine] = {}
        self.folder: Path | None = None
        """The only folder whose files the engine may read and write."""
        self.folded_alone = False
        """Whether the rows were folded, and nothing but the rows of the only source decided how."""
        self.ghosts: list[tuple[int, int | str]] = []
        """Sources and ids of entries that are known to be there, without a row here."""

    @cached_property
    def _engine(self) -> Engine:
        """The engine, started when it is first needed: reading can begin before."""
        few = self.folder is None and sum(self.rows) <= ONE_BY_ONE_UP_TO_ROWS
        started = DuckDB(*engine.connect_small()) if few else DuckDB(engine.connect(folder=self.folder))
        if sum(self.rows) <= UNPLANNED_UP_TO_ROWS:
            started.rows("PRAGMA disable_optimizer")
        return started

    @property
    def fields(self) -> Fields:
        """The fields of all formats that were read."""
        return fields_together(list(self.fields_of.values()))

    def warm_up(self) -> None:
        """Start the engine now, and import what many rows need, while there is something else to wait for."""
        import numpy  # noqa: F401

        self._engine = DuckDB(engine.connect(folder=self.folder))

    def close(self) -> None:
        """Give the memory back."""
        for asking in self._askings:
            asking.end()
        started = self.__dict__.pop("_engine", None)
        if started is not None:
            started.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement of our own and return its rows. Record text never becomes part of `sql`."""
        # What was handed in as arrays is known to the first connection only; others may ask of counted_row and entry.
        return self._engines.get(threading.get_ident(), self._engine).rows(sql, parameters)

    def ask(self, question: Question) -> Rows:
        """Ask something of the folded rows once, and remember the answer."""
        if question not in self._answers:
            self._answers[question] = self.query(question.statement())
        return self._answers[question]

    def ask_apart(self, source: int, question: Question) -> Rows:
        """Ask the same of every source by itself, and return the answer of one."""
        if question not in self._answers_apart:
            answers: dict[int, Rows] = {}
            # Another connection: this one may see the rows of a single source, see `SourceView.query`.
            with closing(self.beside()) as beside:
                for *row, from_source in beside.rows(question.statement("source")):
                    answers.setdefault(from_source, []).append(tuple(row))
            self._answers_apart[question] = answers
        return self._answers_apart[question].get(source, [])

    def views(self) -> list[SourceView]:
        """Return the sources, each to be asked by itself."""
        return [SourceView(self, source, self._own_facets.get(source, set())) for source in range(len(self.paths))]

    def expect(self, asking: Callable[[LedgerView], object]) -> None:
        """Be told what will be asked: nothing that is here takes longer for it, see `DividedLedger`."""

    def meanwhile(self, ask: Callable[[], Answered]) -> Callable[[], Answered]:
        """Begin to ask questions of the folded rows beside others, where that pays; return how to get the answer."""
        if sum(self.rows) <= ONE_BY_ONE_UP_TO_ROWS:
            return ask
        beside = self.beside()

        def ask_over_it() -> Answered:
            self._engines[threading.get_ident()] = beside
            try:
                return ask()
            finally:
                # Another thread may get the same number.
                del self._engines[threading.get_ident()]

        for asking in [asking for asking in self._askings if not asking.running.thread.is_alive()]:
            asking.end()
            self._askings.remove(asking)
        running = Beside(ask_over_it)
        self._askings.append(_Asking(running, beside))
        return running.answer

    def see_only(self, source: int, sql: str) -> None:
        """Let the tables that a statement names hold the rows of one source alone, for this connection."""
        if self._seen_source != source:
            self._seen_source, self._seen = source, set()
        for table, place in _PLACES.items():
            if table not in self._seen and re.search(rf"\b{table}\b", sql):
                rows = "*" if table in ("row_history", "every_case") else "* REPLACE (0 AS source)"
                self._engine.rows(
                    f"CREATE OR REPLACE TEMP TABLE {table} AS"
                    f" SELECT {rows} FROM {self._engine.database}.main.{table} WHERE {place} >> {LINE_BITS} = {source}"
                )
                self._seen.add(table)

    def arrays(self, sql: str) -> dict[str, Any]:
        """Run one statement of our own and return its columns as arrays of numpy."""
        with closing(self.beside()) as beside:
            return beside.arrays(sql)

    def beside(self) -> Engine:
        """Return a second connection, for another thread; it must be closed before the ledger is."""
        return self._engine.beside()

    def place(self, ord_: int) -> str:
        """Return `file:line` of a row."""
        source, line = source_and_line(ord_)
        path, named = self.paths[source], self.place_of.get(source)
        return f"{path}:{line}" if named is None else named(path, line)

    def line(self, ord_: int) -> int:
        """Return the line of a row in its file."""
        return source_and_line(ord_)[1]

    def ord(self, source: int, line: int) -> int:
        """Return the number by which a line of a source is known."""
        return ord_of(source, line)

    def word(self, column: str, number: int | None) -> str | None:
        """Return the word that a number stands for in a column; a facet's column goes by its name in the engine."""
        if number is None:
            return None
        return word_of(number, self.lexicon(column) if number >= 0 else ())

    def lexicon(self, column: str) -> list[str | None]:
        """Return the words of a column by their numbers."""
        lexicon = lexicon_of(self._facet_fields.get(column, column))
        if lexicon not in self._words and self._stored is not None:
            self._words[lexicon] = self._stored.words(lexicon)
        return self._words.get(lexicon, [None])

    def known_words(self, column: str) -> int:
        """Return a number that is not less than that of the words in a column."""
        return len(self.lexicon(column))

    # -- loading -------------------------------------------------------------------------------------------------

    def load(self, source: int, tables: Tables) -> None:
        """Take what a source holds; it reaches the engine when the ledger is folded."""
        self.rows[source] += tables.rows("attempt")
        self._own_facets.setdefault(source, set()).update(tables.numbers["attempt"])
        self._parts.append((tables, ord_of(source, 0)))

    def load_stored(self, source: int, stored: StoredTables) -> None:
        """Take the rows that files hold of a source."""
        self.load(source, stored.read())

    def load_folded(self, stored: StoredTables, copied: Collection[str] = ("entry",)) -> None:
        """Take what files hold of how the only source was folded, in place of its rows.

        Tables that are `copied` are asked about so often that it pays to have them here.
        """
        self.rows[0] = stored.rows
        self._stored, self.folder = stored, stored.folder
        self._name_facets(stored.columns["attempt"])
        for table in FOLDED:
            if not (stored.folder / table_file(table)).exists():
                continue
            kind = "TABLE" if table in copied else "VIEW"
            self._engine.rows(f"CREATE {kind} {table} AS SELECT * FROM {stored.content(table)}")
        self._engine.rows("SET threads = 1")
        self._describe_entries()

    def load_entries(
        self, tables: Mapping[str, Mapping[str, Any]], words: Mapping[str, list[str | None]], facets: Sequence[str]
    ) -> None:
        """Take entries, as arrays, that were folded elsewhere."""
        self._name_facets([*TABLES["attempt"], *facets])
        self._words = {lexicon_of(self._facet_fields.get(name, name)): found for name, found in words.items()}
        for table, columns in tables.items():
            self._engine.show(f"{table}_numbers", columns)
            selected = {name: f"NULLIF({name}, 0)" for name in (*_NUMBERS_OR_NONE, *self._facet_fields)}
            selected["blocks"] = "CASE WHEN blocks >= 0 THEN blocks END"
            selected |= {name: f"{name} <> 0" for name in _FLAGS_OF_ENTRIES}
            listed = ", ".join(f"{selected.get(name, name)} AS {name}" for name in columns)
            self._engine.rows(f"CREATE TABLE {table} AS SELECT {listed} FROM {table}_numbers")

    def save(self, folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str | None]], int]:
        """Write what the rows were folded into to a folder that the engine may write to.

        Return the columns that the rows came in, the words, and how many rows there are.
        """
        present = {name for (name,) in self.query("SELECT table_name FROM information_schema.tables")}
        for table in FOLDED:
            if table in present:
                self._engine.save(table, folder / table_file(table))
        return {table: list(names) for table, names in self._columns.items()}, self._words, sum(self.rows)

    def strangers(self) -> list[tuple[int, int, int]]:
        """Return rows with an id like an attack's whose entry is not there: place, own id and that of the entry."""
        self._place_ghosts()
        return [(place, own, parent) for place, own, parent in self.query(_statement("find_strangers.sql"))]

    def derive(self, field: str, sources: Sequence[str], value: Callable[[dict[str, str | None]], str | None]) -> None:
        """Give the folded entries one more facet, once, made from the values of others."""
        if self.facets.get(field) == f"derived_{field}":
            return
        columns = [self.facets[name] for name in sources]
        name, found, rows = f"derived_{field}", dict[str, int](), list[str]()
        for numbers in self._engine.rows(f"SELECT DISTINCT {', '.join(columns)} FROM entry") if columns else []:
            words = [self.word(column, number) for column, number in zip(columns, numbers, strict=True)]
            made = value(dict(zip(sources, words, strict=True)))
            if made is not None:
                given = ["NULL" if number is None else str(number) for number in numbers]
                rows.append(f"({', '.join([*given, str(found.setdefault(made, len(found) + 1))])})")
        if rows:
            names = [f"source_{number}" for number in range(len(columns))]
            same = [f"e.{column} IS NOT DISTINCT FROM d.{one}" for column, one in zip(columns, names, strict=True)]
            derived = f"(VALUES {', '.join(rows)}) AS d({', '.join([*names, name])})"
            self._engine.rows(
                f"CREATE OR REPLACE TABLE entry AS SELECT e.*, d.{name} FROM entry AS e"
                f" LEFT JOIN {derived} ON {' AND '.join(same)}"
            )
        else:
            self._engine.rows(f"CREATE OR REPLACE TABLE entry AS SELECT *, CAST(NULL AS INTEGER) AS {name} FROM entry")
        self.facets[field], self._words[lexicon_of(name)] = name, [None, *found]

    def only(self, rows: str) -> Ledger:
        """Return a ledger of some rows alone, not folded yet; `rows` selects their places in this one."""
        chosen = Ledger(self.paths, apart=self.apart)
        chosen.fields_of, chosen.place_of = self.fields_of, self.place_of
        self._engine.rows(f"CREATE OR REPLACE TEMP TABLE chosen_row AS {rows}")
        facets = {column: name for column, name in self._columns["attempt"].items() if column.startswith(FACET)}
        largest = "".join(f", MAX({name})" for name in facets.values())
        counted = f"SELECT line >> {LINE_BITS}, COUNT(*){largest} FROM attempt_numbers {_CHOSEN} GROUP BY 1"
        for source, count, *words in self._engine.rows(counted):
            chosen.rows[source] = count
            # A facet that none of the rows has is missing.
            own = [column for column, word in zip(facets, words, strict=True) if word]
            chosen._own_facets[source] = {*TABLES["attempt"], *own}
        present = set[str]().union(*chosen._own_facets.values())
        kept = {table: f"{table}_numbers {_CHOSEN}" for table in TABLES}
        numbers = self._copied(kept, [column for column in facets if column in present])
        chosen._parts.append((Tables(numbers, self._words), 0))
        return chosen

    def judges(self) -> list[str]:
        """Return the judges whose verdicts the rows have, in the order in which they were met; rows must be settled."""
        named = self.query("SELECT DISTINCT judge FROM verdict WHERE judge IS NOT NULL ORDER BY 1")
        found = [self.word("judge", number) for (number,) in named]
        column = self.facets.get(JUDGE_FIELD)
        if column is not None:
            alone = f"state IN ({_JUDGED}) AND ord NOT IN (SELECT ord FROM verdict)"
            rows = self.query(
                f"SELECT DISTINCT {column} FROM attempt WHERE {column} IS NOT NULL AND {alone} ORDER BY 1"
            )
            found += [self.word(column, number) for (number,) in rows]
        return list(dict.fromkeys(name for name in found if name is not None))

    def judged_by(self, judge: str) -> Ledger:
        """Return a ledger of the same rows, not folded yet, as if one judge had judged them alone, or `any`, `all` or
        the `majority` of those that judged them; rows must be settled."""
        judged = Ledger(self.paths, apart=self.apart)
        judged.fields_of, judged.place_of = self.fields_of, self.place_of
        judged.rows, judged._own_facets = self.rows, self._own_facets
        names, words = self._columns["attempt"], dict(self._words)
        replaced = {"decision": "j.decision", "state": "j.state", "truthy": "CAST(j.decision = 1 AS TINYINT)"}
        own = chosen = "TRUE"
        if judge not in TOGETHER:
            chosen, own = f"judge = {_number_of(judge, self.lexicon('judge'))}", "FALSE"
            column = self.facets.get(JUDGE_FIELD)
            if column is not None:
                named = self.lexicon(column)
                own = f"a.{column} = {_number_of(judge, named)}"
                if judge not in named:
                    named = words[FACET + JUDGE_FIELD] = [*named, judge]
                replaced[column] = f"CASE WHEN j.decision >= 0 THEN {named.index(judge)} ELSE a.{column} END"
        decide = TOGETHER.get(judge, "MAX(decision)")
        together = str(judge in TOGETHER).upper()
        self._run("choose_verdicts.sql", chosen=chosen, own=own, decide=decide, together=together, **_NAMED_NUMBERS)
        selected = ", ".join(f"{replaced.get(name, f'a.{name}')} AS {name}" for name in names.values())
        tables = {table: f"{table}_numbers" for table in TABLES} | {
            "attempt": f"(SELECT {selected} FROM attempt_numbers AS a INNER JOIN judged_row AS j ON a.line = j.line)",
            "history": "judged_history",
            "verdict": "verdict_numbers WHERE FALSE",
        }
        facets = [column for column in names if column.startswith(FACET)]
        judged._parts.append((Tables(self._copied(tables, facets), words), 0))
        return judged

    def _copied(self, tables: Mapping[str, str], facets: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the numbers of tables, each selected from what stands for it; `facets` are the columns wanted."""
        columns = {table: list(TABLES[table]) for table in TABLES}
        columns["attempt"] += facets
        return {table: self._numbers(table, tables[table], columns[table]) for table in TABLES}

    def _numbers(self, table: str, selected_from: str, columns: Sequence[str]) -> dict[str, Any]:
        # The engine takes a NaN of numpy's as null, and gives null back.
        selected = ", ".join(
            f"COALESCE({name}, CAST('NaN' AS DOUBLE)) AS {name}" if kind_of(table, column) == Kind.NUMBER else name
            for column, name in ((column, self._columns[table][column]) for column in columns)
        )
        select = f"SELECT {selected} FROM {selected_from}"
        if not self._engine.is_small:
            return dict(zip(columns, self._engine.arrays(select).values(), strict=True))
        values = list(zip(*self._engine.rows(select), strict=True)) or [()] * len(columns)
        return {
            column: array(TYPE_CODES[kind_of(table, column)], numbers)
            for column, numbers in zip(columns, values, strict=True)
        }

    def settle(self) -> None:
        """Hand all rows to the engine."""
        if sum(self.rows) <= ONE_BY_ONE_UP_TO_ROWS and all(tables.is_plain for tables, _ in self._parts):
            self._append_rows()
        else:
            self._show_arrays()
        if sum(self.rows) <= ONE_THREAD_UP_TO_ROWS and not self._engine.is_small:
            self._engine.rows("SET threads = 1")
        self._parts.clear()

    def _append_rows(self) -> None:
        lexicons = {lexicon: Lexicon() for tables, _ in self._parts for lexicon in tables.words}
        for table in TABLES:
            columns = columns_of(table, [tables for tables, _ in self._parts])
            kinds = {name: _SQL_TYPES[kind_of(table, column)] for column, name in sql_names(columns).items()}
            self._create_table(f"{table}_numbers", kinds)
            for tables, offset in self._parts:
                self._engine.append(f"{table}_numbers", rows_of(table, tables, offset, columns, lexicons))
            self._show(table, columns)
        self._words = {name: lexicon.words for name, lexicon in lexicons.items()}

    def _show_arrays(self) -> None:
        import numpy

        tables = joined(self._parts)
        for table, columns in tables.numbers.items():
            names = sql_names(columns)
            arrays = {names[column]: numpy.asarray(numbers) for column, numbers in columns.items()}
            self._engine.show(f"{table}_numbers", arrays)
            self._show(table, columns)
        self._words = tables.words

    def _show(self, table: str, columns: Iterable[str]) -> None:
        """Make a table as the rest of the SQL knows it: null for nothing, and a place for every row."""
        names = self._columns[table] = self._name_facets(columns)
        selected = [f"{_NOTHING_AS_NULL[kind_of(table, c)].format(name)} AS {name}" for c, name in names.items()]
        place = f"line AS ord, CAST(line >> {LINE_BITS} AS INTEGER) AS source"
        # What is small is copied: every connection knows it, and no question has to plan it again.
        kind = "TABLE" if table in FOLDED or self._engine.is_small else "VIEW"
        self._engine.rows(f"CREATE {kind} {table} AS SELECT {place}, {', '.join(selected)} FROM {table}_numbers")

    def _name_facets(self, columns: Iterable[str]) -> dict[str, str]:
        """Return our name for each column, and remember those of the facets."""
        names = sql_names(columns)
        facets = {column: name for column, name in names.items() if column.startswith(FACET)}
        self.facets |= {column.removeprefix(FACET): name for column, name in facets.items()}
        self._facet_fields |= {name: column for column, name in facets.items()}
        return names

    # -- folding -------------------------------------------------------------------------------------------------

    def fold(self, rules: Definition = FAIRCOUNT, *, combined: bool = True, known: RunFacts | None = None) -> None:
        """Fold the rows into entries by the rules of a definition, all sources combined or one.

        `known` is what depends on all rows, where this ledger has only a part of them.
        """
        if rules.merges_rows_by_id:
            self._fold_by_id(combined=combined)
        elif self._stored is None:
            self._fold(known)

    def _fold(self, known: RunFacts | None = None) -> None:
        self.settle()
        runs = self._place_origins(known)
        self._name_blocks(known)
        unsure = self.query("SELECT 1 FROM attempt WHERE mark = ? LIMIT 1", [RowMark.ATTACK_BY_ID])
        if runs > 1 or unsure:
            self._place_ghosts()
            self._run("mark_rows.sql")
        else:
            self._run("mark_plain_rows.sql")
        self._run("suspect_entries.sql")
        if self.query("SELECT 1 FROM suspected LIMIT 1"):
            self._run("resolve_rows.sql", case_signature=self._case_signature())
        else:
            self._run("resolve_no_rows.sql")
        self._run("fold_entries.sql", outcome=_outcome_case(), facets=self._facet_list(), **_NAMED_NUMBERS)
        self.folded_alone = len(self.paths) == 1 and runs <= 1
        self._describe_entries()

    def _describe_entries(self) -> None:
        for view, select in _OF_ENTRIES.items():
            self._engine.rows(f"CREATE VIEW {view} AS {select}")

    def _fold_by_id(self, *, combined: bool) -> None:
        self.settle()
        self._create_table("source_path", {"source": "INTEGER", "path": "INTEGER"})
        numbers = Lexicon()
        for word in self.lexicon("result_origin"):
            _ = numbers[word]
        for source, path in enumerate(self.paths):
            self.query("INSERT INTO source_path VALUES (?, ?)", [source, numbers[path]])
        unnamed = "s.path" if combined else "a.source_file, 0"
        self._run("fold_entries_by_id.sql", unnamed_origin=unnamed, facets=self._facet_list(), **_NAMED_NUMBERS)
        self._describe_entries()

    def _create_table(self, table: str, columns: Mapping[str, str]) -> None:
        described = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self._engine.rows(f"CREATE TABLE {table} ({described})")

    def _place_origins(self, known: RunFacts | None) -> int:
        """Find out which runs the rows come from; return how many different origins there are."""
        numbers: dict[str, list[int]] = {}
        for number, word in enumerate(self.lexicon("result_origin")):
            numbers.setdefault(word or "", []).append(number)
        if known is None:
            named = self._named_origins()
            keys = self._keys_apart(named) if self.apart else self._keys_together(named)
        else:
            keys = known.keys()
            named = list(keys)
        here = [
            (source, number, keys[source, origin])
            for source, origin in dict.fromkeys(named)
            for number in numbers.get(origin, ())
        ]
        self._create_table("origin_key", {"source": "INTEGER", "origin": "INTEGER", "origin_key": "INTEGER"})
        self._insert("origin_key", here)
        self._create_table("source_preference", {"source": "INTEGER", "preference": "INTEGER"})
        self._insert("source_preference", [(source, preference(path)) for source, path in enumerate(self.paths)])
        return len(named)

    def _insert(self, table: str, rows: Sequence[tuple[int, ...]]) -> None:
        if rows:
            self._engine.append(table, rows)

    def _place_ghosts(self) -> None:
        ids = {word: number for number, word in enumerate(self.lexicon("parent_id"))} if self.ghosts else {}
        self._create_table("ghost", {"source": "INTEGER", "id": "INTEGER"})
        known = [(source, ids.get(name, 0) if isinstance(name, str) else name) for source, name in self.ghosts]
        self._insert("ghost", [(source, number) for source, number in known if number])

    def _name_blocks(self, known: RunFacts | None) -> None:
        """Find out by which kinds of error a source says that a guardrail blocked, and which sources have histories."""
        if known is None:
            self._run("name_blocks.sql")
            return
        kinds = {word: number for number, word in enumerate(self.lexicon("error_kind"))}
        self._create_table("blocking_kind", {"source": "INTEGER", "error_kind": "INTEGER"})
        here = [(source, kinds[kind]) for source, kind in known.blocking_kinds if kind in kinds]
        self._insert("blocking_kind", here)
        self._create_table("source_with_history", {"source": "INTEGER"})
        self._insert("source_with_history", [(source,) for source in known.with_history])

    def _keys_together(self, origins: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        pairs = linked_sources(self.paths, self.rows, self.shared_times() if len(self.paths) > 1 else ())
        return origin_keys(self.paths, origins, self.overlaps(pairs), self.rows)

    def shared_times(self) -> list[tuple[int, int]]:
        """Return the ordered pairs of sources that share a row with its response time; rows must be settled."""
        return [(int(one), int(other)) for one, other in self.query(_statement("share_times.sql"))]

    def overlaps(self, pairs: Sequence[tuple[int, int]]) -> list[Overlap]:
        """Count the rows of one source that stand in another, for pairs of them; rows must be settled."""
        if not pairs:
            return []
        self._create_table("linked", {"source": "INTEGER", "other": "INTEGER"})
        self._insert("linked", pairs)
        return [Overlap(*row) for row in self.query(_statement("link_sources.sql"))]

    def _keys_apart(self, origins: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Return the keys that each source would have alone, moved so that no two sources share one."""
        keys: dict[tuple[int, str], int] = {}
        first = 0
        own: dict[int, list[tuple[int, str]]] = {}
        for source, origin in origins:
            own.setdefault(source, []).append((0, origin))
        for source, path in enumerate(self.paths):
            found = origin_keys([path], own.get(source, ()), (), [self.rows[source]])
            keys |= {(source, origin): first + key for (_, origin), key in found.items()}
            first += 1 + max(found.values(), default=0)
        return keys

    def _named_origins(self) -> list[tuple[int, str]]:
        """Return each source with each origin that its rows name, and with '' where rows name none."""
        words = self.lexicon("result_origin")
        counted: list[tuple[int, str, int]] = []
        if len(words) > 1:
            origin = "COALESCE(result_origin, source_file)"
            rows = self.query(
                f"SELECT source, {origin}, COUNT(*) FROM attempt WHERE {origin} IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"
            )
            counted = [(source, words[number] or "", count) for source, number, count in rows]
        return named_origins(counted, self.rows)

    def _case_signature(self) -> str:
        """Return the facets that tell cases apart as one value."""
        columns = [f"COALESCE(a.{self.facets[name]}, 0)" for name in self.fields.case if name in self.facets]
        return f"CONCAT_WS(' ', '', {', '.join(columns)})" if columns else "''"

    def _facet_list(self) -> str:
        """Return the facets as columns of an entry."""
        return ", ".join([f"a.{column}" for column in self.facets.values()] or ["NULL AS no_facet"])

    def _run(self, name: str, **parts: Any) -> None:
        for statement in _statement(name, **parts).split(";"):
            if statement.strip():
                self._engine.rows(statement)


class SourceView:
    """One source of a ledger whose sources were folded apart, asked as if it had a ledger of its own."""

    def __init__(self, whole: Ledger, source: int, own_columns: Collection[str]) -> None:
        self._whole = whole
        self._source = source
        self.paths = [whole.paths[source]]
        self.rows = [whole.rows[source]]
        self.fields = whole.fields_of.get(source, Fields())
        self.facets = {field: column for field, column in whole.facets.items() if FACET + field in own_columns}
        # Words are those of all sources.
        self.place, self.line, self.word, self.lexicon = whole.place, whole.line, whole.word, whole.lexicon
        self.known_words, self.expect = whole.known_words, whole.expect

    def ask(self, question: Question) -> Rows:
        """Ask every source at once where the question allows that, else this one alone."""
        if "$apart" in question.sql:
            return self._whole.ask_apart(self._source, question)
        return self.query(question.statement())

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Ask this source alone: the tables that a statement names hold nothing but its rows, as of a first source."""
        self._whole.see_only(self._source, sql)
        return self._whole.query(sql, parameters)

    def meanwhile(self, ask: Callable[[], Answered]) -> Callable[[], Answered]:
        """Ask when the answer is wanted: there are few rows."""
        return ask

    def ord(self, source: int, line: int) -> int:
        """Return the number by which a line of the only source is known; it is one among all sources."""
        return self._whole.ord(self._source + source, line)


class LedgerView(Protocol):
    """What can be asked of folded rows: those of all sources or of one, here or in parts elsewhere."""

    paths: list[str]
    rows: list[int]
    facets: dict[str, str]
    """The name of each facet's column in the engine."""

    @property
    def fields(self) -> Fields:
        """The fields of the formats that were read."""

    def ask(self, question: Question) -> Rows:
        """Ask something of the folded rows."""

    def expect(self, asking: Callable[[LedgerView], object]) -> None:
        """Be told what will be asked, by a function that asks it."""

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement of our own, where all rows are here."""

    def meanwhile(self, ask: Callable[[], Answered]) -> Callable[[], Answered]:
        """Begin to ask questions beside others, where that pays; return how to get the answer."""

    def place(self, ord_: int) -> str:
        """Return `file:line` of a row."""

    def line(self, ord_: int) -> int:
        """Return the line of a row in its file."""

    def ord(self, source: int, line: int) -> int:
        """Return the number by which a line of a source is known."""

    def word(self, column: str, number: int | None) -> str | None:
        """Return the word that a number stands for in a column."""

    def lexicon(self, column: str) -> list[str | None]:
        """Return the words of a column by their numbers."""

    def known_words(self, column: str) -> int:
        """Return a number that is not less than that of the words in a column."""


_NAMED_NUMBERS = {
    **{outcome.value: number for outcome, number in OUTCOME_NUMBER.items()},
    "several_attacks": SEVERAL_ATTACKS,
    "task": RowMark.TASK,
    "entries_per_run": 1 << 32,
    "half_of_them": 1 << 31,
}


def _number_of(word: str, words: Sequence[str | None]) -> int:
    """Return the number of a word, which no row has where the word is not there."""
    return words.index(word) if word in words else -1


def _statement(name: str, **parts: Any) -> str:
    text = pkgutil.get_data("faircount.ledger", f"sql/{name}") or b""
    return Template(text.decode()).substitute(parts)


def _outcome_case() -> str:
    """Return the outcome rule as SQL over the flags of a folded entry."""
    flags = {
        Outcome.SUCCESS: "f.succeeded",
        Outcome.FAILURE: "f.failed",
        Outcome.ERROR: "f.errored",
        Outcome.GUARDRAIL: "f.blocked",
    }
    branches = " ".join(f"WHEN {flags[o]} THEN {OUTCOME_NUMBER[o]}" for o in PRECEDENCE if o in flags)
    return f"CASE {branches} ELSE {OUTCOME_NUMBER[Outcome.UNJUDGED]} END"


# -- which rows come from the same run --------------------------------------------------------------------------
#
# An extracted row names the file it came from; a rejudged file holds the rows of the file it was made from; a resumed
# run starts with a copy of what it resumes. Such rows must meet in one entry, however the paths are spelled.

_EXTRACTED, _ORIGINAL, _REJUDGED = 0, 1, 2


class RunFacts(Struct, frozen=True):
    """What folding a row depends on beside the rows of its entry."""

    origins: list[tuple[int, str, int]]
    """The run that the rows of a source with a named origin ('' for none) come from."""
    blocking_kinds: list[tuple[int, str]]
    """Kinds of error that a source flags as blocks anywhere."""
    with_history: list[int]
    """Sources that record the requests inside of attacks."""

    def keys(self) -> dict[tuple[int, str], int]:
        """Return the runs by source and origin."""
        return {(source, origin): key for source, origin, key in self.origins}


def named_origins(counted: Iterable[tuple[int, str, int]], rows: Sequence[int]) -> list[tuple[int, str]]:
    """Return each source with each origin that some of its rows name, and with '' where not all of them name one."""
    found: list[list[str]] = [[] for _ in rows]
    left = list(rows)
    for source, origin, count in counted:
        found[source].append(origin)
        left[source] -= count
    return [
        (source, origin)
        for source, origins in enumerate(found)
        for origin in (*origins, *([""] if left[source] > 0 else []))
    ]


def linked_sources(
    paths: Sequence[str], rows: Sequence[int], shared_times: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the ordered pairs of sources of which the first may hold rows of the second.

    Nobody asks about others, and there may be many: all files that say only true or false share all their rows.
    """
    present = [source for source, count in enumerate(rows) if count]
    again = [source for source in present if is_rejudged(paths[source])]
    rejudged = {(source, other) for source in again for other in present if source != other}
    return sorted(rejudged.union(shared_times))


class Overlap(Struct, frozen=True):
    """How many rows of one source stand in another."""

    source: int
    other: int
    found: int
    found_with_verdict: int
    found_timed: int


def preference(path: str) -> int:
    """Return whose verdict stands when several files tell of one attempt: rejudged over original over extracted."""
    name = _parts(path)[-1]
    if name.startswith("rejudge_"):
        return _REJUDGED
    return _EXTRACTED if name.startswith("extract_") else _ORIGINAL


def is_rejudged(path: str) -> bool:
    """Return whether a file holds the rows of another, judged again."""
    return preference(path) == _REJUDGED


def origin_keys(
    paths: Sequence[str], named: Iterable[tuple[int, str]], overlaps: Iterable[Overlap], rows: Sequence[int]
) -> dict[tuple[int, str], int]:
    """Return the run that the rows of a source with a given named origin ('' for none) come from.

    A run is known by the number of the source that holds it, or by a number beyond all sources where the named
    file is not among them.
    """
    own = _derived_from(paths, overlaps, rows)
    keys: dict[tuple[int, str], int] = {}
    # Spellings of one file have its name in common.
    present: dict[str, list[tuple[int, str]]] = {}
    for number, path in enumerate(paths):
        present.setdefault(_parts(path)[-1], []).append((number, path))
    absent: dict[str, list[tuple[int, str]]] = {}
    unknown = len(paths)
    for source, origin in named:
        if not origin:
            keys[source, origin] = own[source]
            continue
        name = _parts(origin)[-1]
        match = next((i for i, path in present.get(name, ()) if _same_file(path, origin)), None)
        if match is not None:
            keys[source, origin] = own[match]
            continue
        known = next((i for i, path in absent.get(name, ()) if _same_file(path, origin)), None)
        if known is None:
            known, unknown = unknown, unknown + 1
            absent.setdefault(name, []).append((known, origin))
        keys[source, origin] = known
    return keys


def _derived_from(paths: Sequence[str], overlaps: Iterable[Overlap], rows: Sequence[int]) -> list[int]:
    """Return for each source the source whose run it repeats, or itself."""
    own = list(range(len(paths)))
    for overlap in sorted(overlaps, key=lambda pair: (pair.source, pair.other)):
        source, other = overlap.source, overlap.other
        if own[source] != source or _root(own, other) == source:
            continue
        if _repeats(overlap, paths, rows):
            own[source] = _root(own, other)
    return [_root(own, source) for source in own]


def _repeats(overlap: Overlap, paths: Sequence[str], rows: Sequence[int]) -> bool:
    """Return whether a source holds nothing but rows of another: rejudged ones, or copies with the same verdicts.

    Times measured to the microsecond, with the same prompts and answers, are what makes a copy certain.
    """
    source, other = overlap.source, overlap.other
    whole, timed = overlap.found == rows[source], overlap.found_timed > 0
    larger = rows[other] > rows[source] or (rows[other] == rows[source] and other < source)
    if is_rejudged(paths[source]):
        return whole and (not is_rejudged(paths[other]) or (timed and larger))
    return overlap.found_with_verdict == rows[source] and timed and larger


def _root(own: Sequence[int], source: int) -> int:
    while own[source] != source:
        source = own[source]
    return source


def _parts(path: str) -> tuple[str, ...]:
    parts = PurePosixPath(path.replace("\\", "/")).parts
    return tuple(part for part in parts if part not in (".", "/")) or ("",)


def _same_file(path: str, origin: str) -> bool:
    """Return whether two spellings name one file: one is the other with more folders in front."""
    mine, theirs = _parts(path), _parts(origin)
    shorter = min(len(mine), len(theirs))
    return mine[-shorter:] == theirs[-shorter:]
