"""Short labels for files, so that a table, a legend or a sentence shows which target is meant.

A label is the target where it is known, else the file's name without what only the tool put there: its prefix, the
dataset, the time and the extension. Among the files at hand it is unique: two files of one target are distinguished by
what differs in their names. A label is for people alone, never a key, and safe to show: one line, nothing hidden.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from faircount.core.model import Source
from faircount.core.text import clip_middle, visible

LONGEST = 60
_STANDARD_INPUT = "standard input"
_EXTENSION = re.compile(r"(\.jsonl|\.json|\.csv|\.gz|\.zst|\.zstd){1,9}$", re.IGNORECASE)
_PREFIX = re.compile(r"^(results|rejudge|extract)_(?=.)")
_WHAT_IT_IS = {"rejudge": "rejudged", "extract": "extracted"}
_TIME = re.compile(r"(?<=.)_(\d{9,10})$")
_TOKEN = re.compile(r"[-_]?[^-_]+")


_BENIGN = re.compile(r"(?:^|[-_. ])(?:benign|harmless|false[-_ ]?positives?|fp)(?:$|[-_. ])", re.IGNORECASE)


def looks_benign(path: str) -> bool:
    """Return whether a file looks, by its name, like a check of a guardrail with benign prompts."""
    return _BENIGN.search(_EXTENSION.sub("", Path(path).name)) is not None


class _Named(Struct, frozen=True):
    """A file by the parts of its name; `target` is empty as long as it is not known which part that is."""

    path: str
    stem: str
    time: str
    target: str = ""
    dataset: str = ""
    what: str = ""
    """What was made of results, where that is so: rejudged, or extracted."""


def labelled(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return sources with their labels."""
    labels = source_labels([source.path for source in sources], [source.target for source in sources])
    return tuple(replace(source, label=label) for source, label in zip(sources, labels, strict=True))


def source_labels(paths: Sequence[str], targets: Sequence[str | None] = ()) -> list[str]:
    """Return a label for each path; `targets` names those that are known."""
    known = [*targets, *[None] * (len(paths) - len(targets))]
    files = [_named(path, target) for path, target in zip(paths, known, strict=True)]
    files = _split_at_dataset(files)
    files = _split_after_known_target(files)
    parts: list[Callable[[_Named], str]] = [
        lambda file: file.target or file.stem,
        lambda file: file.what,
        _short_datasets(files),
        _times(files),
        lambda file: Path(file.path).parent.name,
        lambda file: str(Path(file.path).parent),
    ]
    labels = [[parts[0](file)] for file in files]
    for part in parts[1:]:
        repeated = _repeated([tuple(label) for label in labels])
        for group in repeated:
            said = [part(files[at]) for at in group]
            if len(set(said)) > 1:
                for at, word in zip(group, said, strict=True):
                    labels[at] += [word] if word else []
    return _numbered([" ".join(visible(" ".join(label)).split()) or "file" for label in labels])


def datasets_and_times(paths: Sequence[str], targets: Sequence[str | None] = ()) -> list[tuple[str, datetime | None]]:
    """Return the dataset and the time that the name of each file states, as far as it does."""
    known = [*targets, *[None] * (len(paths) - len(targets))]
    files = _split_at_dataset([_named(path, target) for path, target in zip(paths, known, strict=True)])
    return [
        (visible(file.dataset), datetime.fromtimestamp(int(file.time), UTC) if file.time else None)
        for file in _split_after_known_target(files)
    ]


def _named(path: str, target: str | None) -> _Named:
    if path == "-":
        return _Named(path, _STANDARD_INPUT, "", target or "")
    # A run in a file of several is named behind the file, see `io.streams.split_member`.
    name = Path(path.removesuffix(f"/{target}") if target else path).name
    whole = _EXTENSION.sub("", name)
    prefix = _PREFIX.match(whole)
    what = _WHAT_IT_IS.get(prefix[1], "") if prefix else ""
    stem = _PREFIX.sub("", whole) if whole.strip() else name
    time = _TIME.search(stem)
    stem, seconds = (stem[: time.start()], time[1]) if time else (stem, "")
    return _Named(path, stem, seconds, target or "", stem if target else "", what)


# -- which part of a name is the target -------------------------------------------------------------------------


def _split_at_dataset(files: Sequence[_Named]) -> list[_Named]:
    """Split names at the ending that most of them share: different targets were run on one dataset.

    Of endings that equally many share, the longest is the dataset: `full-prompt` is no more shared than
    `targeted-2024-12-full-prompt` is.
    """
    stems = dict.fromkeys(file.stem for file in files if not file.target and file.stem != _STANDARD_INPUT)
    shared = Counter(ending for stem in stems for ending in _endings(stem))
    split = []
    for file in files:
        endings = [] if file.target else [ending for ending in _endings(file.stem) if shared[ending] > 1]
        if endings:
            dataset = max(endings, key=lambda ending: (shared[ending], len(ending)))
            target = file.stem.removesuffix(dataset)
            file = replace(file, target=target, dataset=dataset.lstrip("-_"))
        split.append(file)
    return split


def _endings(stem: str) -> list[str]:
    """Return every ending of a name that begins at a separator, with it."""
    starts = [match.start() for match in _TOKEN.finditer(stem)]
    return [stem[start:] for start in starts if start]


def _split_after_known_target(files: Sequence[_Named]) -> list[_Named]:
    """Split further names that begin with a target that others showed, or that agree up to a date in the dataset."""
    targets = sorted({file.target for file in files if file.target}, key=len, reverse=True)
    split = []
    for file in files:
        if not file.target:
            heads = [target for target in targets if file.stem.startswith((f"{target}-", f"{target}_"))]
            heads = heads or _head_before_a_shared_date(file.stem, [other.stem for other in files])
            if heads:
                file = replace(file, target=heads[0], dataset=file.stem.removeprefix(heads[0]).lstrip("-_"))
        split.append(file)
    return split


def _head_before_a_shared_date(stem: str, stems: Sequence[str]) -> list[str]:
    head, hyphen, rest = stem.partition("-")
    date = re.match(r".*?\d{4}[-_]", rest)
    others = [other for other in stems if other != stem]
    if not hyphen or date is None or not any(other.startswith(f"{head}-{date[0]}") for other in others):
        return []
    return [head]


# -- what else tells files apart --------------------------------------------------------------------------------


def _short_datasets(files: Sequence[_Named]) -> Callable[[_Named], str]:
    """Return how datasets are called: without what comes before their last number, where that is enough."""
    full = dict.fromkeys(file.dataset for file in files if file.dataset)
    short = {name: _after_last_number(name) for name in full}
    names = short if len(set(short.values())) == len(full) else {name: name for name in full}
    return lambda file: names.get(file.dataset, "")


def _after_last_number(name: str) -> str:
    tokens = _TOKEN.findall(name)
    numbers = [at for at, token in enumerate(tokens) if token.strip("-_").isdigit()]
    rest = "".join(tokens[numbers[-1] + 1 :] if numbers else tokens).lstrip("-_")
    return rest or name


def _times(files: Sequence[_Named]) -> Callable[[_Named], str]:
    """Return how times are written: as days if they lie on different days, else to the second."""
    moments = {file.time: datetime.fromtimestamp(int(file.time), UTC) for file in files if file.time}
    days = {moment.date() for moment in moments.values()}
    form = "%Y-%m-%d" if len(days) == len(moments) else "%Y-%m-%d %H:%M:%S"
    return lambda file: f"{moments[file.time]:{form}}" if file.time else ""


def _repeated(keys: Sequence[Hashable]) -> list[list[int]]:
    """Return the places of keys that stand more than once, those of one key together."""
    places: dict[Hashable, list[int]] = {}
    for at, key in enumerate(keys):
        places.setdefault(key, []).append(at)
    return [found for found in places.values() if len(found) > 1]


def _numbered(labels: Sequence[str]) -> list[str]:
    """Shorten labels, and number those that are still alike, such as those of one file given twice."""
    numbered: list[str] = []
    for label in labels:
        unique, number = clip_middle(label, LONGEST), 1
        while unique in numbered:
            number += 1
            unique = f"{clip_middle(label, LONGEST - len(f' ({number})'))} ({number})"
        numbered.append(unique)
    return numbered
