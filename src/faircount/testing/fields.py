"""Classes whose annotations say what they are made of: `letter: str` or `threshold: float = 0.5`, given by keyword.

What pydantic does for REBEL's classes, as far as test files need it. Values are kept as they are given: nothing is
converted here, and nothing is checked but the names. The classes of messages check what they need themselves.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Self, dataclass_transform, get_args, get_origin, get_type_hints

import msgspec

from faircount.testing.plain import plain, shown

REQUIRED: Final = object()
"""Stands for the default of a field that has none."""

_UNKNOWN_TO_FIELDS = ("model_config",)
_UNCHANGING = (bool, int, float, str, bytes)
_NOT_A_DEFAULT = (..., dataclasses.MISSING, msgspec.NODEFAULT)


@functools.cache
def fields_of(kind: type) -> Mapping[str, object]:
    """Return the fields of a class, those of its bases first: names, and what the class body says of the default."""
    fields: dict[str, object] = {}
    for base in reversed(kind.__mro__):
        if base is object:
            continue
        for name, annotation in inspect.get_annotations(base).items():
            if not _is_class_variable(annotation) and name not in _UNKNOWN_TO_FIELDS:
                fields[name] = base.__dict__.get(name, fields.get(name, REQUIRED))
        # A default can be given anew without its annotation.
        fields |= {name: base.__dict__[name] for name in fields if name in base.__dict__}
    return fields


@functools.cache
def annotations_of(kind: type) -> Mapping[str, Any]:
    """Return the annotations of a class and its bases, as texts where they name what cannot be found."""
    try:
        return get_type_hints(kind)
    except Exception:  # noqa: BLE001  annotations are anybody's
        return {name: hint for base in reversed(kind.__mro__) for name, hint in inspect.get_annotations(base).items()}


def public_fields(kind: type) -> tuple[str, ...]:
    """Return the names of the fields that can be given and are shown; an underscore makes a field private."""
    return _public_names(kind)


@functools.cache
def _public_names(kind: type) -> tuple[str, ...]:
    return tuple(name for name in fields_of(kind) if not name.startswith("_"))


def _is_class_variable(annotation: object) -> bool:
    text = annotation if isinstance(annotation, str) else repr(annotation)
    return text.removeprefix("typing.").removeprefix("t.").startswith("ClassVar")


def default_of(value: object) -> object:
    """Return a default of its own for every object, or REQUIRED; `Field(…)` of pydantic and its kin are understood."""
    factory, default = _unpacked(value)
    if callable(factory):
        return factory()
    if any(default is none for none in _NOT_A_DEFAULT) or type(default).__name__ == "PydanticUndefinedType":
        return REQUIRED
    return default if _is_hashable(default) else copy.deepcopy(default)


def _unpacked(value: object) -> tuple[object, object]:
    """Return what makes a default, and the default."""
    if hasattr(value, "default_factory") and hasattr(value, "default") and not isinstance(value, type):
        return value.default_factory, value.default
    return None, value


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@functools.cache
def _defaults(kind: type) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Return the defaults that all objects of a class can share, and what the others are made from."""
    declared = {name: value for name, value in fields_of(kind).items() if value is not REQUIRED}
    shared = {name: value for name, value in declared.items() if value is None or type(value) in _UNCHANGING}
    made = {name: value for name, value in declared.items() if name not in shared}
    return shared, {name: value for name, value in made.items() if _has_default(value)}


def _has_default(value: object) -> bool:
    return callable(_unpacked(value)[0]) or default_of(value) is not REQUIRED


def fill(instance: object) -> None:
    """Give an object the defaults of its fields."""
    kind: type = type(instance)
    shared, made = _defaults(kind)
    own = vars(instance)
    own.update(shared)
    for name, declared in made.items():
        own[name] = default_of(declared)


def assign(instance: object, given: Mapping[str, Any]) -> None:
    """Give an object the values of its fields; a name that is unknown or missing is a TypeError that says so."""
    kind: type = type(instance)
    names = public_fields(kind)
    own = vars(instance)
    for name in given:
        if name not in names:
            takes = f"it takes {', '.join(names)}" if names else "it takes none"
            raise TypeError(f"{kind.__name__} has no parameter {name}; {takes}")
    own.update(given)
    own["_given"] = frozenset(given)
    missing = [name for name in names if name not in own]
    if missing:
        raise TypeError(f"{kind.__name__} needs {', '.join(missing)}")


def values_of(instance: object) -> dict[str, Any]:
    """Return the fields of an object with their values, in their order."""
    return {name: getattr(instance, name) for name in public_fields(type(instance)) if hasattr(instance, name)}


def described(instance: object) -> str:
    """Return an object as the call that would make it, without secrets."""
    parts = (f"{name}={shown(name, value)}" for name, value in values_of(instance).items())
    return f"{type(instance).__name__}({', '.join(parts)})"


def _public(instance: object) -> dict[str, Any]:
    return {name: value for name, value in vars(instance).items() if not name.startswith("_")}


class ModelField(msgspec.Struct, frozen=True):
    """A field as `model_fields` describes it; `default` is `...` where there is none."""

    annotation: Any
    default: Any
    default_factory: Any = None

    def is_required(self) -> bool:
        """Return whether the field must be given."""
        return self.default is ... and self.default_factory is None


class _ModelFields:
    """`model_fields` of a class and of its objects."""

    def __get__(self, instance: object, owner: type) -> dict[str, ModelField]:
        hints, found = annotations_of(owner), {}
        for name in public_fields(owner):
            factory, default = _unpacked(fields_of(owner)[name])
            is_made = callable(factory)
            missing = is_made or default_of(default) is REQUIRED
            found[name] = ModelField(hints.get(name), ... if missing else default, factory if is_made else None)
        return found


class Model:
    """The methods of pydantic's models that metrics use."""

    model_fields = _ModelFields()

    @classmethod
    def model_validate(cls, obj: Any) -> Self:
        """Return an object made from a dictionary; unknown keys are ignored, and what does not fit is a ValueError."""
        if isinstance(obj, cls):
            return obj
        if not isinstance(obj, Mapping):
            raise ValueError(f"{cls.__name__} is made from a dictionary, not from {type(obj).__name__}")
        try:
            return cls(**cls._known(obj))
        except TypeError as error:
            raise ValueError(str(error)) from error

    @classmethod
    def _known(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the items of a dictionary that the class takes, with nested dictionaries as its fields want them."""
        made: Any = cls.__init__
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        own = [name for name, one in list(inspect.signature(made).parameters.items())[1:] if one.kind not in several]
        kind: type = cls
        hints = annotations_of(kind)
        return {name: _validated(given[name], hints.get(name)) for name in own or public_fields(kind) if name in given}

    @classmethod
    def model_validate_json(cls, json_data: str | bytes) -> Self:
        """Return an object made from a JSON object, as `model_validate` does."""
        return cls.model_validate(json.loads(json_data))

    @property
    def model_fields_set(self) -> frozenset[str]:
        """The fields that somebody gave, whatever their value."""
        given: frozenset[str] = vars(self).get("_given", frozenset())
        return given

    def model_dump(
        self,
        *,
        mode: str = "python",
        include: Collection[str] | None = None,
        exclude: Collection[str] = (),
        exclude_none: bool = False,
    ) -> dict[str, Any]:
        """Return the fields as plain data, the same in both modes."""
        if mode not in ("python", "json"):
            raise ValueError(f"model_dump has the modes python and json, not {mode}")
        wanted = {name: value for name, value in values_of(self).items() if include is None or name in include}
        dumped = {name: _dumped(value, exclude_none) for name, value in wanted.items() if name not in (exclude or ())}
        return {name: value for name, value in dumped.items() if not (exclude_none and value is None)}

    def model_dump_json(self, *, indent: int | None = None, exclude_none: bool = False) -> str:
        """Return the fields as JSON."""
        return json.dumps(plain(self.model_dump(exclude_none=exclude_none)), ensure_ascii=False, indent=indent)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, with other values for some fields; as in pydantic, these are not checked."""
        made = copy.deepcopy(self) if deep else copy.copy(self)
        vars(made).update(update or {})
        vars(made)["_given"] = self.model_fields_set | set(update or {})
        return made

    def copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy: the older name of `model_copy`."""
        return self.model_copy(update=update, deep=deep)

    def __repr__(self) -> str:
        return described(self)


@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
class Declared(Model):
    """The base of classes for the user to extend: fields by keyword, or an `__init__` of the class's own.

    Defaults are there before `__init__` begins, so that one of the user's need not call this one.
    """

    def __new__(cls, *_values: Any, **_named: Any) -> Self:
        made = super().__new__(cls)
        fill(made)
        return made

    def __init__(self, *values: Any, **named: Any) -> None:
        kind = type(self).__name__
        if values:
            names = ", ".join(f"{name}=…" for name in public_fields(type(self)))
            raise TypeError(f"{kind} takes its parameters by name: {kind}({names})")
        assign(self, named)
        self.model_post_init(None)

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        for name, value in vars(cls).items():
            # Without pydantic they would be passed over, and what they check with them.
            if type(value).__name__ == "PydanticDescriptorProxy":
                raise TypeError(f"{cls.__name__}.{name}: pydantic's decorators do nothing here; use model_post_init")

    def model_post_init(self, context: Any, /) -> None:
        """Do what is left to do when the fields are there."""

    def _recorded(self) -> Mapping[str, Any]:
        """Return the parameters that an object is known by: its fields, and what an `__init__` of its own set."""
        if type(self).__init__ is Declared.__init__:
            return values_of(self)
        return {**values_of(self), **_public(self)}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _public(self) == _public(other)


@dataclass_transform(field_specifiers=(dataclasses.field,))
class Data(Model):
    """Plain data with named fields: equal if the fields are, printable, and ready to be written down."""

    def __init__(self, *values: Any, **named: Any) -> None:
        given = self._by_name(values, named) if values else named
        fill(self)
        assign(self, given)
        self._settle()

    def _by_name(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        kind, names = type(self).__name__, public_fields(type(self))
        if len(values) > len(names):
            raise TypeError(f"{kind} takes {len(names)} values at most: {', '.join(names)}")
        given = dict(zip(names, values, strict=False))
        for name in named:
            if name in given:
                raise TypeError(f"{kind}: {name} is given twice")
        return given | dict(named)

    def _settle(self) -> None:
        """Bring the fields into their form, or raise TypeError or ValueError."""

    def _recorded(self) -> Mapping[str, Any]:
        return values_of(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and values_of(self) == values_of(other)


def _validated(value: Any, annotation: Any) -> Any:
    """Return a value with models in place of dictionaries, where an annotation names a model."""
    kind = next(_models_in(annotation), None)
    if kind is None:
        return value
    if isinstance(value, list | tuple):
        return [_validated(item, annotation) for item in value]
    return kind.model_validate(value) if isinstance(value, Mapping) else value


def _models_in(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for part in () if get_origin(annotation) is dict else get_args(annotation):
        yield from _models_in(part)


def _dumped(value: Any, exclude_none: bool) -> Any:
    if isinstance(value, Model):
        return value.model_dump(exclude_none=exclude_none)
    if isinstance(value, list | tuple):
        return [_dumped(item, exclude_none) for item in value]
    if isinstance(value, Mapping):
        return {key: _dumped(item, exclude_none) for key, item in value.items()}
    return getattr(value, "value", value) if isinstance(value, str) else value
