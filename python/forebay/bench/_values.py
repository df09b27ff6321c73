"""Values of parameters: from text or JSON to the types that a signature names."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Any, Literal

_UNITS = {
    "": 1,
    "B": 1,
    "K": 1 << 10,
    "k": 1 << 10,
    "KiB": 1 << 10,
    "M": 1 << 20,
    "m": 1 << 20,
    "MiB": 1 << 20,
    "G": 1 << 30,
    "g": 1 << 30,
    "GiB": 1 << 30,
    "T": 1 << 40,
    "TiB": 1 << 40,
    "KB": 10**3,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
_NUMBER = re.compile(r"\s*(-?\d+)\s*([A-Za-z]*)\s*")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_NAMES = {int: "int", float: "float", bool: "bool", str: "str", Path: "path"}


class BenchError(Exception):
    """A benchmark or its parameters cannot be used as they are."""


def type_name(annotation: Any) -> str:
    """How a type is called in the list of benchmarks."""
    if typing.get_origin(annotation) is Literal:
        return "choice"
    if typing.get_origin(annotation) is list:
        return "list"
    return _NAMES.get(annotation, "str")


def convert(name: str, value: Any, annotation: Any) -> Any:
    """The value as the type that its parameter has. Text may have a unit: `4KiB`.

    Raises:
        BenchError: it does not fit.
    """
    if value is None:
        return None
    if typing.get_origin(annotation) is Literal:
        choices = typing.get_args(annotation)
        for choice in choices:
            if str(choice) == str(value):
                return choice
        names = ", ".join(str(choice) for choice in choices)
        raise BenchError(f"`{name}` must be one of {names}: `{value}`")
    if typing.get_origin(annotation) is list:
        (inner,) = typing.get_args(annotation) or (str,)
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            items = [items]
        return [convert(name, item, inner) for item in items]
    return _plain(name, value, annotation)


def _plain(name: str, value: Any, annotation: Any) -> Any:
    if annotation is bool:
        flag = value if isinstance(value, bool) else _FLAGS.get(str(value).strip().lower())
        if flag is None:
            raise BenchError(f"`{name}` must be `true` or `false`: `{value}`")
        return flag
    if annotation is int:
        return _whole(name, value)
    if annotation is float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise BenchError(f"`{name}` must be a number: `{value}`") from None
    if annotation is Path:
        return Path(str(value))
    return str(value) if annotation is str else value


def _whole(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _NUMBER.fullmatch(str(value))
    if found is None or found[2] not in _UNITS:
        raise BenchError(f"`{name}` must be a whole number, as in `4096` or `4KiB`: `{value}`")
    return int(found[1]) * _UNITS[found[2]]
