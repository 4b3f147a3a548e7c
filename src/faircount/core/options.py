"""Options, each defined once: a field of a struct, annotated with its help, bounds and names.

The command line, shell completion, bench files, notebook keywords and the reference page are derived from it.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, replace

from faircount.core.errors import UsageError
from faircount.core.text import clip, visible

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines of a file are skipped and reported, unless an option says otherwise."""


class Option(Struct, frozen=True):
    """What a field of `Options` is on the command line.

    `group` is the heading in the help; an option without one stands under the heading of the option before it. `flags`
    are its names, by default one made of the field's name. `default` says in words what happens without the option,
    where its value does not. `read` makes a value of a word; `several` words may follow the option. `once` is for a
    list of one: the command refuses more by name. `common` options are those that a short help shows.
    """

    help: str
    group: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default: str = ""
    read: Callable[[str], Any] | None = None
    positional: bool = False
    several: bool = False
    once: bool = False
    common: bool = False
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def refusal(self, value: Any) -> str:
        """Return why a value is not allowed, or nothing."""
        if isinstance(value, tuple):
            return next(filter(None, map(self.refusal, value)), "") if self.choices else ""
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}, not {value!r}"
        allowed = (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )
        return "" if allowed else f"must be {self._bounds()}, not {value}"

    def _bounds(self) -> str:
        least = None if self.least is None else f"{self.least:g}"
        if least is not None and self.most is not None:
            return f"from {least} to {self.most:g}"
        parts = [
            f"{least} or more" if least is not None else "",
            f"{self.most:g} or less" if self.most is not None else "",
            f"more than {self.above:g}" if self.above is not None else "",
            f"less than {self.below:g}" if self.below is not None and self.below < math.inf else "",
        ]
        return " and ".join(filter(None, parts))


class OptionField(Struct, frozen=True):
    """A field of options: its name, type and default, and the options that set it."""

    name: str
    type: Any
    default: Any
    required: bool
    options: tuple[Option, ...]

    @property
    def repeated(self) -> bool:
        """Whether it may be given several times."""
        return get_origin(self.type) is tuple

    def flags(self, option: Option) -> tuple[str, ...]:
        """Return the names of an option of this field."""
        prefix = "--no-" if self.type is bool and self.default is True else "--"
        return option.flags or (prefix + self.name.replace("_", "-"),)

    @property
    def flag(self) -> str:
        """What the field is called in messages."""
        named = next((option for option in self.options if not option.positional), None)
        return self.name if named is None else next(flag for flag in self.flags(named) if flag.startswith("--"))


class Options(Struct, frozen=True, kw_only=True):
    """The options of a command or of a part of one; a value that is not allowed raises UsageError."""

    def __post_init__(self) -> None:
        for known in option_fields(type(self)):
            value = getattr(self, known.name)
            for option in known.options if value is not None and value != known.default else ():
                refusal = option.refusal(value)
                if refusal:
                    raise UsageError(f"{known.flag} {refusal}")


@functools.cache
def option_fields(kind: type[Options]) -> tuple[OptionField, ...]:
    """Return the fields of options that have a name on the command line."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in fields(kind):
        hint = hints[field.name]
        extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        options = tuple(extra for extra in extras if isinstance(extra, Option))
        if options:
            required = field.default is NODEFAULT and field.default_factory is NODEFAULT
            default = None if required else field.default
            found.append(OptionField(field.name, get_args(hint)[0], default, required, options))
    return tuple(found)


# -- options from Python and from files -----------------------------------------------------------------------------


def options_from(
    keywords: Mapping[str, Any], *kinds: type[Options], given: Options | Sequence[Options] | None = None
) -> tuple[Any, ...]:
    """Return options of each kind: those that are given, or else the defaults, changed by keywords.

    A keyword that is None changes nothing. TypeError for a keyword that no kind has, and for options of another kind.
    """
    ready = {type(one): one for one in ([given] if isinstance(given, Options) else given or ())}
    for kind in ready:
        if kind not in kinds:
            raise TypeError(f"{kind.__name__} given; expected {' and '.join(kind.__name__ for kind in kinds)}")
    known = {one.name: one for kind in kinds for one in option_fields(kind)}
    for name in keywords:
        if name not in known:
            raise TypeError(f"no such option: {name}; available: {', '.join(known)}")
    values = {name: option_value(known[name], value) for name, value in keywords.items() if value is not None}
    own = [(kind, {name: values[name] for name in kind.__struct_fields__ if name in values}) for kind in kinds]
    return tuple(replace(ready[kind], **changed) if kind in ready else kind(**changed) for kind, changed in own)


def option_value(known: OptionField, value: Any) -> Any:
    """Return what a Python call or a bench file gives an option, as its field has it; UsageError if it is not allowed.

    A number may stand for text, a table for JSON, a single value for a list of one, and text for what it is read as.
    """
    if known.repeated:
        several = value if isinstance(value, list | tuple) else [value]
        found: Any = tuple(_one_value(known, one) for one in several)
    else:
        found = _single_value(known, value)
    for refusal in filter(None, (option.refusal(found) for option in known.options if found != known.default)):
        raise UsageError(f"{known.name} {refusal}")
    return found


def _one_value(known: OptionField, value: Any) -> Any:
    """Return one value of those that an option may have."""
    read = known.options[0].read
    if read is None:
        return _text(known, value)
    try:
        return read(str(value)) if isinstance(value, str | int) else tuple(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{known.name}: {error}") from None


def _single_value(known: OptionField, value: Any) -> Any:
    kind = next(kind for kind in get_args(known.type) or (known.type,) if kind is not type(None))
    if kind is bool:
        if not isinstance(value, bool):
            raise UsageError(f"{known.name} must be true or false, not {_shown(value)}")
        return value
    if kind is str:
        return _text(known, value)
    what = "a whole number" if kind is int else "a number"
    if isinstance(value, bool) or not isinstance(value, str | int | (float if kind is float else int)):
        raise UsageError(f"{known.name} must be {what}, not {_shown(value)}")
    try:
        return kind(value)
    except (ValueError, OverflowError):
        raise UsageError(f"{known.name} must be {what}, not {_shown(value)}") from None


def _text(known: OptionField, value: Any) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, dict):
        import json

        return json.dumps(value)
    raise UsageError(f"{known.name} must be a string, a number or a table, not {_shown(value)}")


def _shown(value: Any) -> str:
    return clip(visible(repr(value)), 60)
