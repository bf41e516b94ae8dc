"""A preset of promotion in a file of one's own: the options, and the common types as rows or as a library has them.

    {
      "name": "acme",
      "promote_unsafe": true,
      "above": {"bool": ["int8"], "int8": ["int16"], "int16": ["float16"], "float16": ["float"], "float": []},
      "weak_integer": "int16", "weak_float": "float16"
    }

`above` names the types that stand directly above each, as in `promotion_libraries`; a type without a row mixes with
nothing. In place of it `library` may name a library. The other fields are those of PromotionRules, with its defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from onnx_ir import DataType

from castsmith.numerics.errors import PromotionError
from castsmith.numerics.json_files import read_json
from castsmith.numerics.types import parse_type

_FLAGS = ("promote_unsafe", "pytorch_scalar_promotion", "weak_scalars")
_TYPES = ("u64_integer_promotion_target", "weak_integer", "weak_float")
_KNOWN = {"name", "description", "library", "above", *_FLAGS, *_TYPES}


@dataclass(frozen=True)
class PromotionFile:
    """What a file says. above: by the short names of types, None where `library` has the rows."""

    name: str
    library: str
    above: Mapping[str, str] | None
    flags: Mapping[str, bool]
    types: Mapping[str, DataType]


def is_promotion_file(name: str) -> bool:
    """Whether the name of a preset or library is the path of a file."""
    return name.endswith(".json")


@cache
def promotion_file(path: str) -> PromotionFile:
    """The file at that path. Raises PromotionError, in a sentence that names it, where it describes no preset."""
    content = read_json(Path(path), PromotionError)
    try:
        return _read(content, path)
    except (TypeError, ValueError) as error:
        raise PromotionError(f"{path} does not describe a promotion: {str(error).rstrip('.')}.") from None


def _read(content: object, path: str) -> PromotionFile:
    if not isinstance(content, dict):
        raise TypeError("it is not an object")
    data = cast("dict[str, Any]", content)
    if unknown := sorted(data.keys() - _KNOWN):
        raise ValueError(f"{unknown[0]!r} is none of its fields, which are {', '.join(sorted(_KNOWN))}")
    if not isinstance(data.get("name"), str):
        raise ValueError("'name' is missing")
    if ("above" in data) == ("library" in data):
        raise ValueError("it needs either 'above' or 'library'")
    if wrong := [name for name in _FLAGS if not isinstance(data.get(name, False), bool)]:
        raise ValueError(f"{wrong[0]!r} must be true or false")
    above = _rows(data["above"]) if "above" in data else None
    flags = {name: data[name] for name in _FLAGS if name in data}
    types = {name: parse_type(str(data[name])) for name in _TYPES if name in data}
    return PromotionFile(data["name"], path if above is not None else str(data["library"]), above, flags, types)


def _rows(given: object) -> Mapping[str, str]:
    """The rows by short names. Raises ValueError for a type above that has no row, and for rows that go in a circle."""
    if not isinstance(given, dict):
        raise TypeError("'above' must be an object with a list of types for each type")
    rows: dict[str, list[str]] = {}
    for name, above in cast("dict[str, Any]", given).items():
        if not isinstance(above, list):
            raise TypeError(f"above {name} must be a list of types")
        rows[_short(name)] = [_short(str(each)) for each in cast("list[Any]", above)]
    for name, above in rows.items():
        for each in above:
            if each not in rows:
                raise ValueError(f"{each}, which is above {name}, has no row")
    _refuse_circles(rows)
    return {name: " ".join(above) for name, above in rows.items()}


def _refuse_circles(rows: Mapping[str, list[str]]) -> None:
    """Take away, over and over, the types that have nothing above them that is left; in a circle none goes."""
    left = dict(rows)
    while top := [name for name, above in left.items() if not any(each in left for each in above)]:
        for name in top:
            del left[name]
    if left:
        raise ValueError(f"{next(iter(left))} stands above itself")


def _short(name: str) -> str:
    return parse_type(name).short_name()
