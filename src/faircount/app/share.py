"""Exports of the page as library calls: written whole with what they were made of, and recomputed to be verified.

An export names its files by their content, so that it can be made again from a copy of them elsewhere, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from faircount.analysis.options import ReadingOptions
from faircount.app.options import AnyPath, ViewOptions
from faircount.core.errors import FaircountError, InputError, UsageError
from faircount.core.findings import counted
from faircount.core.options import options_from
from faircount.core.text import clip, visible
from faircount.version import __version__

MANIFEST = "manifest.json"
DOCUMENTS = "figures"
_BLOCK = 1024 * 1024
_SERVER_ONLY = ("labels", "get", "port", "token", "judge_quality")
_SHOWN = 80


class ExportedSource(Struct, frozen=True, kw_only=True):
    """A file that an export was made of: as it was named, and by what it is known again."""

    id: str
    name: str
    size: int
    sha256: str
    date: str = ""
    tool: str = ""
    reader: str = ""


class ManifestFile(Struct, frozen=True):
    """A file of an export as it was written."""

    size: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """What an export is made of, how, and what it holds: its `manifest.json`."""

    kind: str = "export"
    schema: int = 1
    faircount: str
    python: str
    created: str
    command: str
    redacted: bool
    options: dict[str, Any]
    sources: tuple[ExportedSource, ...]
    figures: int
    files: dict[str, ManifestFile]


class Verification(Struct, frozen=True, kw_only=True):
    """What was checked of an export, and where it differs; without differences every figure was recomputed."""

    folder: str
    files: int
    sources: int
    figures: int
    byte_for_byte: bool
    differences: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What was checked, in one sentence."""
        if self.differences:
            return f"{self.folder}: {counted(len(self.differences), 'difference')}"
        pages = "every page made again, byte for byte" if self.byte_for_byte else "pages not compared"
        return (
            f"{self.folder}: {counted(self.files, 'file')} unchanged, {counted(self.sources, 'result file')} as named, "
            f"{counted(self.figures, 'figure')} recomputed and equal, {pages}"
        )


# -- exporting ----------------------------------------------------------------------------------------------------


def export_view(folder: AnyPath, *paths: AnyPath, options: ViewOptions | None = None, **keywords: Any) -> Manifest:
    """Write the page of result files as a folder of static pages; options are the fields of `ViewOptions`."""
    from faircount.app.view import files_of
    from faircount.io.new_file import new_folder

    (asked,) = options_from(keywords, ViewOptions, given=options)
    for name in _SERVER_ONLY:
        if getattr(asked, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} does not work with --export")
    files = files_of(paths, asked)
    place = Path(folder)
    for file in files:
        if place.exists() and place.resolve() in Path(file).resolve().parents:
            raise UsageError(f"{place}: holds {file}, which is to be exported; name another folder")
    with new_folder(os.fspath(folder), force=asked.force, is_ours=_is_export) as inside:
        sources = _sources(files)
        created = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        command = asked.command or f"faircount.export_view({os.fspath(folder)!r}, …)"
        return _write(inside, files, sources, asked, created, command, platform.python_version())


def _is_export(folder: Path) -> bool:
    """Return whether a folder is an export and holds nothing else, so that it may be replaced."""
    try:
        known = _manifest(folder).files.keys() | {MANIFEST}
    except InputError:
        return False
    return all(one.relative_to(folder).as_posix() in known for one in folder.rglob("*") if not one.is_dir())


def _sources(files: Sequence[str]) -> tuple[ExportedSource, ...]:
    """Return files by their content; of those with the same content each has an id of its own."""
    from faircount.app.web.runs import run_id
    from faircount.io.streams import split_member

    found: list[ExportedSource] = []
    for file in files:
        size, digest = _digest(file)
        known = run_id(f"{digest} {split_member(file)[1] or ''}".encode())
        same = sum(one.id.startswith(known) for one in found)
        found.append(ExportedSource(id=f"{known}{same or ''}", name=file, size=size, sha256=digest))
    return tuple(found)


def _digest(file: str) -> tuple[int, str]:
    """Return the size and the digest of a file, or of all files of a folder that is one run."""
    from faircount.io.streams import file_of

    place = Path(file_of(file))
    inside = [place] if place.is_file() else sorted(one for one in place.rglob("*") if one.is_file())
    size, digest = 0, hashlib.sha256()
    for one in inside:
        if one != place:
            digest.update(one.relative_to(place).as_posix().encode("utf-8", "surrogateescape") + b"\0")
        with one.open("rb") as stream:
            while block := stream.read(_BLOCK):
                size += len(block)
                digest.update(block)
    return size, digest.hexdigest()


def _write(
    folder: Path,
    files: Sequence[str],
    sources: Sequence[ExportedSource],
    asked: ViewOptions,
    created: str,
    command: str,
    python: str,
) -> Manifest:
    """Write the pages of files, which are called as the sources say, and the manifest."""
    from faircount.app.web.export import Exported, Exporter
    from faircount.app.web.naming import Naming
    from faircount.app.web.runs import RunName, Runs

    names = [RunName(one.id, one.name, _moment(one.date)) for one in sources]
    with Runs(files, asked.analyzed, names) as runs:
        words = _words(runs) if asked.redact else None
        naming = Naming(dict(zip(files, (one.name for one in sources), strict=True)), words)
        for run in runs.all:
            run.naming = naming
        runs.summed_up(None)
        known = tuple(
            msgspec.structs.replace(source, date="" if run.date is None else run.date.isoformat(), **_reader_of(run))
            for source, run in zip(sources, runs.all, strict=True)
        )
        about = Exported(created=created, command=command, python=python, redacted=asked.redact, sources=known)
        Exporter(folder, runs, about).write()
    manifest = Manifest(
        faircount=__version__,
        python=python,
        created=created,
        command=command,
        redacted=asked.redact,
        options=_given(asked),
        sources=known,
        figures=sum(sum(1 for _ in _figures(document)) for _, document in _documents(folder)),
        files=_files_in(folder),
    )
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    return manifest


def _words(runs: Any) -> dict[str, list[str]]:
    """Return the words that the records of all runs bring into figures, by field."""
    from faircount.analysis import browse

    words: dict[str, list[str]] = {}
    for run in runs.all:
        # A file that cannot be read has no figures; its page says why.
        with suppress(FaircountError):
            for name, listed in browse.recorded_words(run.results()).items():
                words.setdefault(name, []).extend(listed)
    return words


def _reader_of(run: Any) -> dict[str, str]:
    analysis = run.summary().analysis
    if analysis is None or not analysis.sources:
        return {}
    source = analysis.sources[0]
    return {"tool": " ".join(filter(None, [source.tool, source.tool_version])), "reader": source.reader}


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _given(asked: ViewOptions) -> dict[str, Any]:
    """Return the options that decide how files are read and counted, where they are not the defaults."""
    names = [name for name in ReadingOptions.__struct_fields__ if name != "cache"]
    default = ViewOptions()
    return {
        name: msgspec.to_builtins(getattr(asked, name))
        for name in names
        if getattr(asked, name) != getattr(default, name)
    }


def _files_in(folder: Path) -> dict[str, ManifestFile]:
    inside = sorted(one for one in folder.rglob("*") if not one.is_dir() and one != folder / MANIFEST)
    return {one.relative_to(folder).as_posix(): ManifestFile(*_digest(str(one))) for one in inside}


def _documents(folder: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted((folder / DOCUMENTS).glob("*.json")):
        try:
            yield path.relative_to(folder).as_posix(), msgspec.json.decode(path.read_bytes())
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(f"{path}: is not JSON: {error}") from None


def _figures(value: Any, place: str = "") -> Iterator[tuple[str, int | float]]:
    """Yield every number of a document with its place."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _figures(one, f"{place}.{name}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _figures(one, f"{place}[{number}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place.lstrip("."), value


# -- verifying ----------------------------------------------------------------------------------------------------


def verify(folder: AnyPath, *paths: AnyPath) -> Verification:
    """Check that the files of an export are unchanged and that its figures follow from the results.

    The working directory may change during the call.
    """
    place = Path(folder)
    manifest = _manifest(place)
    if not paths:
        raise UsageError("no result file given; name the files that the export was made from")
    differences = list(_changed_files(place, manifest.files))
    given, others = _sources_given([os.fspath(path) for path in paths], manifest)
    differences += others
    notes: list[str] = []
    byte_for_byte = manifest.faircount == __version__
    if None in given:
        notes.append("figures were not recomputed: not all result files of the export were given")
    else:
        if not byte_for_byte:
            notes.append(
                f"written by Faircount {manifest.faircount}, this is {__version__}: figures are compared, pages are not"
            )
        with tempfile.TemporaryDirectory(prefix="faircount-verify-") as name:
            options = msgspec.convert(manifest.options | {"redact": manifest.redacted}, ViewOptions)
            folder_again = Path(name) / "export"
            folder_again.mkdir()
            made = manifest.created, manifest.command, manifest.python
            given_files = [one for one in given if one is not None]
            try:
                with _under_their_names(given_files, manifest.sources, Path(name)) as files:
                    again = _write(folder_again, files, manifest.sources, options, *made)
            except (FaircountError, OSError) as error:
                raise InputError(f"the export cannot be made again: {error}") from error
            differences += _different_figures(place, folder_again)
            if byte_for_byte:
                differences += _different_pages(place, folder_again, again)
    return Verification(
        folder=os.fspath(folder),
        files=len(manifest.files),
        sources=len(manifest.sources),
        figures=manifest.figures,
        byte_for_byte=byte_for_byte,
        differences=tuple(dict.fromkeys(differences)),
        notes=tuple(notes),
    )


def _manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: {reason}; name a folder that faircount view --export wrote") from error
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
        msgspec.convert(manifest.options, ViewOptions)
        for source in manifest.sources:
            _moment(source.date)
    except (msgspec.MsgspecError, RecursionError, UsageError, ValueError) as error:
        raise InputError(f"{path}: is not the manifest of an export: {clip(visible(str(error)), 200)}") from None
    if manifest.kind != "export" or manifest.schema != 1:
        raise InputError(f"{path}: is the manifest of another kind or version of export")
    return manifest


def _changed_files(folder: Path, known: Mapping[str, ManifestFile]) -> Iterator[str]:
    found = _files_in(folder)
    for name, file in known.items():
        if name not in found:
            yield f"{visible(name)}: is missing"
        elif found[name] != file:
            yield f"{visible(name)}: was changed after it was written"
    for name in sorted(found.keys() - known.keys()):
        yield f"{visible(name)}: is not part of the export"


def _sources_given(names: Sequence[str], manifest: Manifest) -> tuple[list[str | None], list[str]]:
    """Return the file that each source is, and what does not fit."""
    from faircount.app.web.runs import found_files

    options = msgspec.convert(manifest.options, ViewOptions)
    files = found_files(names, options.read_as)
    known = {_content(source): file for source, file in zip(_sources(files), files, strict=True)}
    given = [known.pop(_content(source), None) for source in manifest.sources]
    problems = [
        f"{visible(source.name)}: no file given has its content (sha256 {source.sha256[:12]}…)"
        for source, file in zip(manifest.sources, given, strict=True)
        if file is None
    ]
    return given, problems + [
        f"{visible(file)}: is not a file that the export was made from" for file in known.values()
    ]


def _content(source: ExportedSource) -> tuple[str, int, str]:
    return source.id, source.size, source.sha256


@contextmanager
def _under_their_names(files: Sequence[str], sources: Sequence[ExportedSource], folder: Path) -> Iterator[list[str]]:
    """Yield the files by the names of the sources, since labels of runs are made of names of files and folders.

    Meanwhile the working directory is one in which relative names mean these files.
    """
    from faircount.io.streams import file_of, split_member

    if all(file == source.name for file, source in zip(files, sources, strict=True)):
        yield list(files)
        return
    found = []
    try:
        names = [split_member(source.name)[0] for source in sources]
        # Deep enough that no name leads out of the folder.
        depth = ["inner"] * max(Path(name).parts.count("..") for name in names)
        inner, absolute = folder.joinpath("relative", *depth), folder.joinpath("absolute", *depth)
        places = [absolute.joinpath(*Path(name).parts[1:]) if Path(name).is_absolute() else name for name in names]
        # All folders are made before the first link, so that none is made behind one.
        inner.mkdir(parents=True)
        absolute.mkdir(parents=True)
        for place in places:
            (inner / place).parent.mkdir(parents=True, exist_ok=True)
        for file, source, name, place in zip(files, sources, names, places, strict=True):
            link, whole = inner / place, Path(file_of(file)).resolve()
            if not link.is_symlink():
                link.symlink_to(whole)
            elif link.readlink() != whole:
                raise ValueError(f"{name} is two files")
            found.append(source.name.replace(name, str(place), 1))
    except (OSError, ValueError, RecursionError) as error:
        reason = clip(visible(str(error)), 200)
        raise InputError(f"{MANIFEST}: a name of a result file cannot be used: {reason}") from None
    with chdir(inner):
        yield found


def _different_figures(folder: Path, again: Path) -> Iterator[str]:
    try:
        shown, made = dict(_documents(folder)), dict(_documents(again))
    except InputError as error:
        yield visible(str(error))
        return
    for name, document in made.items():
        if name not in shown:
            yield f"{name}: is missing"
            continue
        said, is_now = dict(_figures(shown[name])), dict(_figures(document))
        for place, figure in is_now.items():
            if place not in said:
                yield f"{name}: {visible(place)} is missing, and should be {figure}"
            elif said[place] != figure:
                yield f"{name}: {visible(place)} is {said[place]}, and should be {figure}"
        for place in sorted(said.keys() - is_now.keys()):
            yield f"{name}: {visible(place)} is {said[place]}, and should not be there"
    for name in sorted(shown.keys() - made.keys()):
        yield f"{visible(name)}: should not be there"


def _different_pages(folder: Path, again: Path, made: Manifest) -> Iterator[str]:
    for name in (*made.files, MANIFEST):
        one, other = folder / name, again / name
        if one.is_file() and (before := one.read_bytes()) != (after := other.read_bytes()):
            yield f"{name}: {_first_difference(before, after)}"
        elif not one.is_file():
            yield f"{name}: is missing"


def _first_difference(before: bytes, after: bytes) -> str:
    differing = (place for place, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
    at = next(differing, min(len(before), len(after)))
    start = max(at - _SHOWN // 2, 0)
    shown = [visible(one[start : start + _SHOWN].decode("utf-8", "replace")) for one in (before, after)]
    line = before.count(b"\n", 0, at) + 1
    return f"line {line} is '…{shown[0]}…', and should be '…{shown[1]}…'"
