"""Targets as data: what a runtime accepts, lacks and gets wrong, read from a JSON file that anyone can add to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from onnx_ir import DataType

from castsmith.lowering.codes import CODED_TYPES
from castsmith.numerics.errors import CastsmithError, ElementTypeError
from castsmith.numerics.extensions import TARGETS, extension, extensions
from castsmith.numerics.opsets import NEWEST_OPSET
from castsmith.numerics.types import parse_type

TARGETS_FOLDER = Path(__file__).parent / "targets"
_HAS_ARITHMETIC = "Add"
_NEWEST_IR = 14


class TargetError(CastsmithError):
    """A target that is unknown, or whose file does not describe one."""


@dataclass(frozen=True)
class WrongCast:
    """Casts that the target computes otherwise than the schema says, and how that was found.

    saturate: only with this setting, where not None. before_opset: only in models of an older opset, where not None.
    disputed: others whom one would trust do the same, so the cast is left to the target.
    """

    sources: frozenset[DataType]
    targets: frozenset[DataType]
    wrong: str
    evidence: str
    saturate: bool | None = None
    before_opset: int | None = None
    disputed: bool = False

    def covers(self, source: DataType, to: DataType, *, saturate: bool, opset: int) -> bool:
        """Whether this cast is one of them."""
        return (
            source in self.sources
            and to in self.targets
            and self.saturate in (None, saturate)
            and (self.before_opset is None or opset < self.before_opset)
        )


@dataclass(frozen=True)
class WrongFusion:
    """Operators whose fusion with others goes wrong on these types, where they are not of a constant, and how."""

    types: frozenset[DataType]
    operators: frozenset[str]
    how: str


@dataclass(frozen=True)
class Target:
    """One runtime, as its file describes it.

    kernels: for each type the operators that take it, and the opset from which; a type without a row is taken by every
    operator that the standard gives it, and an operator that was not `probed` takes the types that have arithmetic.
    operators_without_uint8: operators that only move elements and have no kernel for uint8, in which codes are kept.
    sequence_operators: operators outside the common stock that sequences may use, and the opset from which.
    as_written: how it is known that each operator is computed by itself and rounded to its type, never contracted or
    re-associated with others; empty where that is not so, or not known. unknown:
    the fields that nobody has found out yet; where kernels are, the types that can be codes are never left to the
    target, and a newest opset or IR version is then not claimed to be one. evidence: how the facts were found.
    """

    name: str
    description: str
    newest_opset: int
    newest_ir_version: int
    lacks: frozenset[DataType] = frozenset()
    kernels: Mapping[DataType, Mapping[str, int]] = field(default_factory=dict[DataType, Mapping[str, int]])
    operators_without_uint8: frozenset[str] = frozenset()
    wrong_fusions: tuple[WrongFusion, ...] = ()
    wrong_casts: tuple[WrongCast, ...] = ()
    nan_codes_that_differ: tuple[str, ...] = ()
    sequence_operators: Mapping[str, int] = field(default_factory=dict[str, int])
    as_written: str = ""
    hazards: Mapping[str, str] = field(default_factory=dict[str, str])
    probed: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    evidence: str = ""

    @property
    def operators_on_float8(self) -> Mapping[str, int]:
        """The operators that take the most common float8 type, and the opset from which."""
        return self.kernels.get(DataType.FLOAT8E4M3FN, {})

    def has_kernel(self, op_type: str, dtype: DataType, opset: int) -> bool:
        """Whether the operator takes the type in a model of that opset."""
        if "kernels" in self.unknown and dtype in CODED_TYPES:
            return False
        row = self.kernels.get(dtype)
        if row is None or op_type in row:
            return row is None or row[op_type] <= opset
        return bool(self.probed) and op_type not in self.probed and _HAS_ARITHMETIC in row

    def fusion_defect(self, op_type: str, dtype: DataType) -> str | None:
        """How the target's fusion of the operator goes wrong on the type; None where none does."""
        entries = (entry for entry in self.wrong_fusions if dtype in entry.types and op_type in entry.operators)
        return next((entry.how for entry in entries), None)

    def wrong_cast(self, source: DataType, to: DataType, *, saturate: bool, opset: int) -> WrongCast | None:
        """The entry that says the target computes this cast wrongly, beyond dispute; None where it does not."""
        found = (entry for entry in self.wrong_casts if entry.covers(source, to, saturate=saturate, opset=opset))
        return next((entry for entry in found if not entry.disputed), None)


def target_names() -> list[str]:
    """The targets that come with Castsmith, and those that other packages add."""
    return sorted({*_own_names(), *(each.name for each in extensions(TARGETS))})


def load_target(name_or_path: str) -> Target:
    """The target of that name, or the one that the JSON file at that path describes.

    Other packages add targets as entry points of the group `castsmith.targets`: a Target, or the path of a file.
    Raises TargetError for a name that is none of these, and for a file that does not describe a target;
    ExtensionError for what a package adds and cannot be used.
    """
    path = Path(name_or_path)
    if name_or_path in _own_names():
        return _read(TARGETS_FOLDER / f"{name_or_path}.json")
    if path.suffix == ".json":
        return _read(path)
    added = extension(TARGETS, name_or_path, lambda thing: _fit(thing, name_or_path))
    if added is None and not path.is_file():
        raise TargetError(
            f"{name_or_path!r} is not a target; known targets are {', '.join(target_names())}, "
            "or give the path of a JSON file."
        )
    return added or _read(path)


def _own_names() -> list[str]:
    return sorted(path.stem for path in TARGETS_FOLDER.glob("*.json"))


def _fit(thing: object, name: str) -> Target:
    """A target as a package gives it: itself, or the path of its file."""
    if isinstance(thing, str | os.PathLike):
        thing = _read(Path(cast("str | os.PathLike[str]", thing)))
    if not isinstance(thing, Target):
        raise TypeError("it is neither a Target nor the path of a file")
    if thing.name != name:
        raise ValueError(f"the target calls itself {thing.name!r}")
    return thing


def _read(path: Path) -> Target:
    try:
        return _target(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror}.") from None
    except json.JSONDecodeError as error:
        raise TargetError(f"{path} is not JSON: {error}.") from None
    except KeyError as error:
        raise TargetError(f"{path} does not describe a target: {error.args[0]!r} is missing.") from None
    except (ElementTypeError, TypeError, ValueError, AttributeError) as error:
        raise TargetError(f"{path} does not describe a target: {str(error).rstrip('.')}.") from None


def _target(data: dict[str, Any]) -> Target:
    known = [each.name for each in fields(Target)]
    for key in data:
        if key not in known:
            raise ValueError(f"{key!r} is none of its keys, which are {', '.join(known)}")
    return Target(
        name=str(data["name"]),
        description=str(data["description"]),
        newest_opset=_number(data, "newest_opset", NEWEST_OPSET),
        newest_ir_version=_number(data, "newest_ir_version", _NEWEST_IR),
        lacks=_types(data.get("lacks", [])),
        kernels=_kernels(data.get("kernels", [])),
        operators_without_uint8=frozenset(data.get("operators_without_uint8", [])),
        wrong_fusions=tuple(
            WrongFusion(_types(entry["types"]), frozenset(entry["operators"]), str(entry["how"]))
            for entry in data.get("wrong_fusions", [])
        ),
        wrong_casts=tuple(_wrong_cast(entry) for entry in data.get("wrong_casts", [])),
        nan_codes_that_differ=tuple(data.get("nan_codes_that_differ", [])),
        sequence_operators=cast("dict[str, int]", dict(data.get("sequence_operators", {}))),
        as_written=str(data.get("as_written", "")),
        hazards=cast("dict[str, str]", dict(data.get("hazards", {}))),
        probed=frozenset(data.get("probed", [])),
        unknown=_unknown(data),
        evidence=str(data.get("evidence", "")),
    )


def _number(data: dict[str, Any], key: str, unknown: int) -> int:
    value = data[key]
    if value is not None and not isinstance(value, int):
        raise ValueError(f"{key} is {value!r}, which is no whole number")
    return unknown if value is None else value


def _unknown(data: dict[str, Any]) -> tuple[str, ...]:
    """What the file says nobody knows, and what it gives as null."""
    nulls = [key for key, value in data.items() if value is None]
    return tuple(dict.fromkeys([*nulls, *(str(key) for key in data.get("unknown", []))]))


def _wrong_cast(entry: dict[str, Any]) -> WrongCast:
    saturate = entry.get("saturate")
    return WrongCast(
        sources=_types(entry["from"]),
        targets=_types(entry["to"]),
        wrong=str(entry["wrong"]),
        evidence=str(entry["evidence"]),
        saturate=None if saturate is None else bool(saturate),
        before_opset=entry.get("before_opset"),
        disputed=bool(entry.get("disputed", False)),
    )


def _kernels(entries: list[dict[str, Any]]) -> dict[DataType, Mapping[str, int]]:
    return {
        dtype: cast("dict[str, int]", dict(entry["operators"])) for entry in entries for dtype in _types(entry["types"])
    }


def _types(names: list[str]) -> frozenset[DataType]:
    return frozenset(parse_type(name) for name in names)
