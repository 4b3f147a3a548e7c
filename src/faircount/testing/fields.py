"""Classes whose annotations say what they are made of: `letter: str` or `threshold: float = 0.5`, given by keyword.

What pydantic does for REBEL's classes, as far as test files need it. Values are kept as they are given: nothing is
converted here, and nothing is checked but the names. The classes of messages check what they need themselves.

Parameters are written down as plain data, the same in every process, and never a secret. An object that has no form of
its own is written as its class: an address in memory would make two runs of the same test look different.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import inspect
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Self, dataclass_transform, get_args, get_origin, get_type_hints

import msgspec

from faircount.core.text import clip, mask_secrets

# -- plain data ---------------------------------------------------------------------------------------------------


SECRET = "[secret]"
PRIVATE = "_faircount_tests_"
"""What the names of the modules of test files begin with, while they are executed; never written down."""

_DEEPEST = 12
_LONGEST_TEXT = 20_000
_LONGEST_REPR = 200
_MOST_ITEMS = 10_000
_PRIVATE_NAME = re.compile(rf"{PRIVATE}[0-9a-f]+\.([^\s@'\">]+)(?:@\d+)?")
_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]+")
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_SECRET_WORDS = frozenset(
    ["secret", "password", "passwd", "passphrase", "authorization", "credential", "credentials", "apikey", "cookie"]
)
_RECORDED_MODULES = {
    "JudgeMetric": "judged",
    "ToolCallsAccuracy": "tool_calls",
    "ExactMatchToolCallDistance": "tool_calls",
    "CosineSimilarityToolCallDistance": "tool_calls",
    "ContextualFScore": "context",
    "OpenAIClientWrapper": "judge_model",
    "OpenAIClientLLM": "deepeval",
    **dict.fromkeys(("Function", "ToolCall", "Message", "AssistantInput", "AssistantOutput"), "messages"),
}
"""The modules under which journals know our classes: a metric's identity, and so a resumed run, depends on its name."""
_KEYS = frozenset(["api", "access", "private", "secret", "auth", "subscription", "account", "signing"])


def is_secret(name: str) -> bool:
    """Return whether a name is that of a secret: `api_key`, `token`, `Authorization`; not `max_tokens` or `key`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] == "env":
        return False
    if _SECRET_WORDS & set(words) or words[-1] == "token":
        return True
    return words[-1] == "key" and bool(_KEYS & set(words[:-1]))


def secrets_in(value: Any) -> set[str]:
    """Return the texts that `plain` hides because of their names, so that they can be hidden elsewhere too."""
    found: set[str] = set()
    _gather(value, "", found, 0)
    return found


def shown(name: str, value: object) -> str:
    """Return a value for `repr`, hidden if its name says that it is a secret."""
    return SECRET if is_secret(name) and _can_be_secret(value) else mask_secrets(repr(value))


def _can_be_secret(value: object) -> bool:
    return value is not None and not isinstance(value, bool)


def plain(value: Any, name: str = "", depth: int = 0) -> Any:
    """Return a value as plain data that JSON can hold; what is named like a secret, or looks like one, is hidden."""
    if is_secret(name) and _can_be_secret(value):
        return SECRET
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, enum.Enum):
        return plain(value.value, "", depth + 1)
    if value is None or isinstance(value, bool | int | float | str):
        return _simple(value)
    inner = fields_in(value)
    if inner is not None:
        written = {_key(key): plain(item, str(key), depth + 1) for key, item in islice(inner.items(), _MOST_ITEMS)}
        # An object in an object stands with its class: two distances without parameters are not the same.
        return {"type": class_name(type(value)), **written} if depth and not isinstance(value, Mapping) else written
    if isinstance(value, list | tuple):
        return [plain(item, "", depth + 1) for item in islice(value, _MOST_ITEMS)]
    if isinstance(value, set | frozenset):
        return sorted((plain(item, "", depth + 1) for item in value), key=repr)
    return _other(value)


def _simple(value: bool | int | float | str | None) -> Any:
    if isinstance(value, str):
        return clip(_USER_IN_ADDRESS.sub(SECRET, mask_secrets(str(value))), _LONGEST_TEXT)
    if isinstance(value, float):
        # JSON has no such numbers.
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if abs(value) < 2**63 else str(value)
    return value


def class_name(kind: type) -> str:
    """Return the module and name of a class; a module of a test file is called as its file is."""
    module = kind.__module__
    if module in ("faircount.testing.cases", "faircount.testing.metrics", "faircount.testing.model_metrics"):
        module = f"faircount.testing.{_RECORDED_MODULES.get(kind.__name__, module.rpartition('.')[2])}"
    return _public_name(f"{module}.{kind.__qualname__}")


def _public_name(name: str) -> str:
    return _PRIVATE_NAME.sub(r"\1", name)


def _key(key: object) -> str:
    return mask_secrets(key) if isinstance(key, str) else str(key)


def fields_in(value: Any) -> Mapping[Any, Any] | None:
    """Return what a value is made of, if it has names for it: a mapping, or an object that can tell its fields."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    tell = getattr(value, "_recorded", None)
    if callable(tell):
        written = tell()
        return written if isinstance(written, Mapping) else None
    asked = getattr(value, "client_params", None)
    if isinstance(asked, Mapping):
        # A client of REBEL's: which model it asks is what matters.
        return asked
    for names in ("__struct_fields__", "model_fields", "__dataclass_fields__"):
        fields = getattr(type(value), names, None)
        if isinstance(fields, tuple | Mapping):
            return {name: getattr(value, name, None) for name in fields}
    return None


def _other(value: Any) -> Any:
    named = getattr(value, "__qualname__", None)
    if isinstance(named, str):
        return _public_name(f"{getattr(value, '__module__', '')}.{named}".lstrip("."))
    try:
        written = msgspec.to_builtins(value, str_keys=True)
    except Exception:  # noqa: BLE001  an object of anybody's
        return _represented(value)
    return plain(written, "", 1) if isinstance(written, str | int | float) else _represented(value)


def _represented(value: Any) -> str:
    kind = f"<{class_name(type(value))}>"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  an object of anybody's
        return kind
    if _ADDRESS.search(text):
        return kind
    return clip(_USER_IN_ADDRESS.sub(SECRET, mask_secrets(_public_name(text))), _LONGEST_REPR)


def _gather(value: Any, name: str, found: set[str], depth: int) -> None:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        if is_secret(name):
            found.add(str(value))
        return
    inner = fields_in(value)
    items = inner.items() if inner is not None else ()
    for key, item in islice(items, _MOST_ITEMS):
        _gather(item, name if is_secret(name) else str(key), found, depth + 1)
    if isinstance(value, list | tuple):
        for item in islice(value, _MOST_ITEMS):
            _gather(item, name, found, depth + 1)


# -- fields -------------------------------------------------------------------------------------------------------


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
            text = annotation if isinstance(annotation, str) else repr(annotation)
            is_class_variable = text.removeprefix("typing.").removeprefix("t.").startswith("ClassVar")
            if not is_class_variable and name not in _UNKNOWN_TO_FIELDS:
                fields[name] = base.__dict__.get(name, fields.get(name, REQUIRED))
        # A default can be given again without its annotation.
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


def default_of(value: object) -> object:
    """Return a default of its own for every object, or REQUIRED; `Field(…)` of pydantic and its kin are understood."""
    factory, default = _unpacked(value)
    if callable(factory):
        return factory()
    if any(default is none for none in _NOT_A_DEFAULT) or type(default).__name__ == "PydanticUndefinedType":
        return REQUIRED
    try:
        hash(default)
    except TypeError:
        return copy.deepcopy(default)
    return default


def _unpacked(value: object) -> tuple[object, object]:
    """Return what makes a default, and the default."""
    if hasattr(value, "default_factory") and hasattr(value, "default") and not isinstance(value, type):
        return value.default_factory, value.default
    return None, value


@functools.cache
def _defaults(kind: type) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Return the defaults that all objects of a class can share, and what the others are made from."""
    declared = {name: value for name, value in fields_of(kind).items() if value is not REQUIRED}
    shared = {name: value for name, value in declared.items() if value is None or type(value) in _UNCHANGING}
    made = {
        name: value
        for name, value in declared.items()
        if name not in shared and (callable(_unpacked(value)[0]) or default_of(value) is not REQUIRED)
    }
    return shared, made


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
