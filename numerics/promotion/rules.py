"""The settings of a promotion: the attributes of ConvertPromoteTypes, and the library whose table of types is used.

A preset in a file holds the options, and the common types as rows or by the name of a library:

    {
      "name": "acme",
      "promote_unsafe": true,
      "above": {"bool": ["int8"], "int8": ["int16"], "int16": ["float16"], "float16": ["float"], "float": []},
      "weak_integer": "int16", "weak_float": "float16"
    }

`above` names the types directly above each type, as in `promotion_libraries`; a type without a row has a common type
only with itself. Instead of `above`, `library` may name a library. The other fields are those of PromotionRules, with
its defaults.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, cast

from onnx_ir import DataType

from castsmith.numerics.arguments import flag, text
from castsmith.numerics.errors import PromotionError, did_you_mean
from castsmith.numerics.extensions import PROMOTIONS, extension, extensions
from castsmith.numerics.json_files import read_json
from castsmith.numerics.types import parse_type

_FLAGS = ("promote_unsafe", "pytorch_scalar_promotion", "weak_scalars", "half_constants")
_TYPES = ("u64_integer_promotion_target", "weak_integer", "weak_float")
_KNOWN = {"name", "description", "library", "above", *_FLAGS, *_TYPES}


@dataclass(frozen=True)
class Library:
    """The rows of one library, by short names.

    Attributes:
        above: The types directly above each type.
        star: The type of a weakly typed float that no other float absorbs.
        weak_integer: The type of a Python integer among operands of lower kind.
        weak_float: The type of a Python float among operands of lower kind.
    """

    above: Mapping[str, str]
    star: str = "f32"
    weak_integer: str = "i64"
    weak_float: str = "f32"


def is_promotion_file(name: str) -> bool:
    """True if the name of a preset or library is the path of a file."""
    return name.endswith(".json")


def promotion_file(path: str) -> tuple[PromotionRules, Library | None]:
    """Return the rules in the file at that path, and the rows, unless a library has them.

    Raises:
        PromotionError: The file does not describe a preset; the message names the file.
    """
    try:
        status = os.stat(path)
    except OSError:
        return _file_as_of(path, ())
    return _file_as_of(path, (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))


@cache
def _file_as_of(path: str, state: tuple[int, ...]) -> tuple[PromotionRules, Library | None]:
    """Return the content of the file at that path. It is read again if its state is another."""
    del state
    content = read_json(Path(path), PromotionError)
    try:
        return _read(content, path)
    except (TypeError, ValueError) as error:
        raise PromotionError(f"{path} does not describe a promotion: {str(error).rstrip('.?')}.") from None


def _read(content: object, path: str) -> tuple[PromotionRules, Library | None]:
    if not isinstance(content, dict):
        raise TypeError("it is not an object")
    data = cast("dict[str, Any]", content)
    if unknown := sorted(data.keys() - _KNOWN):
        raise ValueError(f"unknown field {unknown[0]!r}; expected {', '.join(sorted(_KNOWN))}")
    if not isinstance(data.get("name"), str):
        raise ValueError("'name' is missing")
    if ("above" in data) == ("library" in data):
        raise ValueError("it needs either 'above' or 'library'")
    if wrong := [name for name in _FLAGS if not isinstance(data.get(name, False), bool)]:
        raise ValueError(f"{wrong[0]!r} must be true or false")
    flags = {name: data[name] for name in _FLAGS if name in data}
    types = {name: parse_type(str(data[name])) for name in _TYPES if name in data}
    target = types.pop("u64_integer_promotion_target", DataType.FLOAT)
    rows = {name: dtype.short_name() for name, dtype in types.items()}
    library = Library(_rows(data["above"]), **rows) if "above" in data else None
    name = str(data["library"]) if library is None else path
    return PromotionRules(u64_integer_promotion_target=target, library=name, **flags), library


def _rows(table: object) -> Mapping[str, str]:
    """Return the rows by short names.

    Raises:
        ValueError: A type above another has no row, or the rows form a cycle.
    """
    if not isinstance(table, dict):
        raise TypeError("'above' must be an object with a list of types for each type")
    rows: dict[str, list[str]] = {}
    for name, above in cast("dict[str, Any]", table).items():
        if not isinstance(above, list):
            raise TypeError(f"above {name} must be a list of types")
        rows[_short(name)] = [_short(str(name_above)) for name_above in cast("list[Any]", above)]
    for name, above in rows.items():
        for name_above in above:
            if name_above not in rows:
                raise ValueError(f"{name_above}, which is above {name}, has no row")
    try:
        TopologicalSorter(rows).prepare()
    except CycleError as error:
        raise ValueError(f"{error.args[1][0]} is above itself, which is a cycle") from None
    return {name: " ".join(above) for name, above in rows.items()}


def _short(name: str) -> str:
    return parse_type(name).short_name()


Rank = int | None
"""The number of dimensions; None if unknown."""


@dataclass(frozen=True)
class PromotionRules:
    """The attributes of ConvertPromoteTypes with its defaults, and two options of Castsmith.

    Attributes:
        promote_unsafe: Allow promotions that can change a value, such as int32 to float.
        pytorch_scalar_promotion: Ignore a rank-0 operand beside a dimensioned one of the same kind.
        u64_integer_promotion_target: The common type of uint64 and a signed integer type.
        library: The source of the common types: `openvino` (derived from the types), a table of `promotion_libraries`,
            or the path of a preset file. All promotions of a library are unsafe by its own rule; without
            `promote_unsafe`, steps that ConvertPromoteTypes calls unsafe are refused.
        weak_scalars: Treat a rank-0 constant as a number of the source text: if the common type of the other operands
            holds it exactly, it does not widen them.
        half_constants: Give a floating-point constant of any rank the type of the float16 or bfloat16 operands beside
            it, if no element overflows and not all become zero: some converters to 16 bits leave constants wide.
    """

    promote_unsafe: bool = False
    pytorch_scalar_promotion: bool = False
    u64_integer_promotion_target: DataType = DataType.FLOAT
    library: str = "openvino"
    weak_scalars: bool = False
    half_constants: bool = False

    def __post_init__(self) -> None:
        """Check the fields, and convert the type from any form that `parse_type` accepts."""
        for name in _FLAGS:
            object.__setattr__(self, name, flag(name, getattr(self, name), PromotionError))
        object.__setattr__(self, "u64_integer_promotion_target", parse_type(self.u64_integer_promotion_target))
        text("library", self.library)

    @classmethod
    def preset(cls, name: str) -> PromotionRules:
        """Return the rules of a library's users: one of `PRESETS`, a JSON file by its path, or an entry point.

        Entry points of installed packages are in the group `castsmith.promotions`.

        Raises:
            PromotionError: The name is unknown.
        """
        if text("the preset", name) in PRESETS:
            return PRESETS[name]
        if is_promotion_file(name):
            return _from_file(name)
        preset = extension(PROMOTIONS, name, lambda source: _fit(source, name))
        if preset is None:
            names = (*PRESETS, *(extension.name for extension in extensions(PROMOTIONS)))
            way_out = did_you_mean(name, names, f"expected {', '.join(names)}")
            raise PromotionError(f"unknown promotion preset {name!r}; {way_out}")
        return preset


def as_rules(promotion: PromotionRules | str | None) -> PromotionRules:
    """Return the rules themselves, or those of the preset of that name; the default rules for None."""
    if promotion is None:
        return PromotionRules()
    return promotion if isinstance(promotion, PromotionRules) else PromotionRules.preset(promotion)


def _from_file(path: str, name: str = "") -> PromotionRules:
    """Return the preset in a file; its rows, if any, are registered under the name that a package declares."""
    rules, library = promotion_file(path)
    if library is None and rules.library not in PRESETS:
        raise PromotionError(f"{path}: unknown library {rules.library!r}; expected {', '.join(PRESETS)}.")
    return replace(rules, library=name) if name and library is not None else rules


def _fit(source: object, name: str) -> PromotionRules:
    """Return a preset as a package declares it: the rules, or the path of a file."""
    if isinstance(source, str | os.PathLike):
        return _from_file(os.fspath(cast("str | os.PathLike[str]", source)), name)
    if isinstance(source, PromotionRules):
        return source
    raise TypeError("it is neither PromotionRules nor the path of a file")


PRESETS: dict[str, PromotionRules] = {
    "openvino": PromotionRules(),
    "torch": PromotionRules(True, pytorch_scalar_promotion=True, library="torch", weak_scalars=True),
    "numpy": PromotionRules(True, library="numpy"),
    "jax": PromotionRules(True, library="jax"),
    "tensorflow": PromotionRules(True, library="tensorflow"),
    "half": PromotionRules(half_constants=True),
}
"""`tensorflow` is the mode "all" of tf.experimental.numpy; with promote_unsafe=False it is its mode "safe"."""
