"""What was tested, by the OWASP Top 10 for LLM Applications and MITRE ATLAS (`--by owasp`, `--by atlas`).

`taxonomy.toml` maps values of fields to identifiers. An entry may have several, and has none if no value is mapped.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import msgspec
from msgspec import Struct

from faircount.analysis.options import TAXONOMIES
from faircount.core.model import Analysis, Coverage
from faircount.ledger import tallies
from faircount.ledger.store import Ledger, LedgerView
from faircount.report.blocks import Section, number_column, table, text_column

DATA = Path(__file__).with_name("taxonomy.toml")
ANY = "*"
_BETWEEN = ", "
_NOTE = (
    "Entries with several identifiers are counted in each; entries with no value that is mapped are counted in none."
)


class _Catalogue(Struct, frozen=True):
    title: str
    names: Mapping[str, str]


class _Taxonomy(Struct, frozen=True):
    owasp: _Catalogue
    atlas: _Catalogue
    fields: Mapping[str, Mapping[str, Sequence[str]]]


@cache
def taxonomy() -> _Taxonomy:
    """Return the catalogues, and what values of fields mean."""
    return msgspec.convert(tomllib.loads(DATA.read_text("utf-8")), _Taxonomy)


def catalogue(name: str) -> _Catalogue:
    """Return one of the catalogues."""
    found: _Catalogue = getattr(taxonomy(), name)
    return found


def identifiers(name: str, values: Mapping[str, str | None]) -> list[str]:
    """Return the identifiers of a catalogue for an entry with these values of fields, in the catalogue's order."""
    found = {one for field, value in values.items() if value for one in _meant(field, value)}
    return [one for one in catalogue(name).names if one in found]


def _meant(field: str, value: str) -> Iterator[str]:
    meanings = taxonomy().fields.get(field, {})
    # garak writes several tags into one value.
    for part in value.split(_BETWEEN) if field == "owasp" else [value]:
        prefix = f"{part.partition(':')[0]}:"
        yield from meanings.get(part) or (meanings.get(prefix) if ":" in part else None) or meanings.get(ANY, ())


def derive(ledger: LedgerView, asked: Collection[str]) -> None:
    """Give entries the fields of the catalogues that are asked for."""
    sources = [field for field in taxonomy().fields if field in ledger.facets]
    for name in TAXONOMIES.intersection(asked):
        if isinstance(ledger, Ledger):
            ledger.derive(name, sources, partial(_value, name))


def _value(name: str, values: Mapping[str, str | None]) -> str | None:
    return _BETWEEN.join(identifiers(name, values)) or None


def coverage(ledger: LedgerView, asked: Sequence[str]) -> Iterator[Coverage]:
    """Yield for each identifier of the catalogues that are asked for how many entries tested it."""
    for name in sorted(TAXONOMIES.intersection(asked), key=list(asked).index):
        if name not in ledger.facets:
            continue
        entries = dict[str, tuple[int, int]]()
        for number, counts in tallies.by_number(ledger, ledger.facets[name]):
            for one in (tallies.text_of(ledger, ledger.facets[name], number) or "").split(_BETWEEN):
                total, won = entries.get(one, (0, 0))
                entries[one] = total + counts.tally.total, won + counts.tally.success
        for one, title in catalogue(name).names.items():
            yield Coverage(name, one, title, *entries.get(one, (0, 0)))


def sections(analysis: Analysis) -> Iterator[Section]:
    """Yield what was tested of each catalogue, and what was not."""
    for name in dict.fromkeys(one.taxonomy for one in analysis.coverage):
        rows = [one for one in analysis.coverage if one.taxonomy == name]
        tested = sum(bool(one.entries) for one in rows)
        yield Section(
            f"Coverage: {tested} of {len(rows)} of {catalogue(name).title}",
            (
                table(
                    rows,
                    text_column("Identifier", lambda one: one.id),
                    text_column("", lambda one: one.title),
                    number_column("Entries", lambda one: one.entries or "never tested"),
                    number_column("Successes", lambda one: one.successes if one.entries else ""),
                    note=_NOTE,
                ),
            ),
        )
