"""Targets from JSON files: those that come with Castsmith, those of other packages, and those at a path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from onnx_ir import DataType

from castsmith.ir.targets.target import QUANTIZATION_RULES, Target, TargetError, WrongCast, WrongFusion
from castsmith.numerics.arguments import text
from castsmith.numerics.cast import NEWEST_OPSET
from castsmith.numerics.errors import did_you_mean
from castsmith.numerics.extensions import TARGETS, extension, extensions
from castsmith.numerics.json_files import read_json
from castsmith.numerics.types import CODED_TYPES, HALF_TYPES, parse_type

TARGETS_FOLDER = Path(__file__).parent / "data"
_NEWEST_IR = 14


def target_names() -> list[str]:
    """Return the targets that come with Castsmith, and those that other packages add."""
    return sorted({*_own_names(), *(each.name for each in extensions(TARGETS))})


def load_target(name_or_path: str) -> Target:
    """Return the target of that name, or the one that the JSON file at that path describes.

    Other packages add targets as entry points of the group `castsmith.targets`: a Target, or the path of a file.

    Args:
        name_or_path: The name of a target, or the path of its JSON file.

    Raises:
        TargetError: The name is unknown, or the file does not describe a target.
        ExtensionError: A package adds an unusable target.
    """
    path = Path(text("target", name_or_path))
    if name_or_path in _own_names():
        return _read(TARGETS_FOLDER / f"{name_or_path}.json")
    if path.suffix == ".json":
        return _read(path)
    added = extension(TARGETS, name_or_path, lambda thing: _fit(thing, name_or_path))
    if added is None and not path.is_file():
        known = target_names()
        way_out = did_you_mean(name_or_path, known, f"expected {', '.join(known)}, or the path of a JSON file")
        raise TargetError(f"unknown target {name_or_path!r}; {way_out}")
    return added or _read(path)


def as_target(target: str | Target | None, *, strict: bool = False) -> Target | None:
    """Return the target itself, or the one of that name or path; None for None. Raises as `load_target` does.

    strict: without the fallback of a device.
    """
    found = target if target is None or isinstance(target, Target) else load_target(target)
    return found.strict() if strict and found is not None else found


def _own_names() -> list[str]:
    return sorted(path.stem for path in TARGETS_FOLDER.glob("*.json"))


def _fit(thing: object, name: str) -> Target:
    """Return a target as a package declares it: itself, or the path of its file."""
    if isinstance(thing, str | os.PathLike):
        thing = _read(Path(cast("str | os.PathLike[str]", thing)))
    if not isinstance(thing, Target):
        raise TypeError("it is neither a Target nor the path of a file")
    if thing.name != name:
        raise ValueError(f"the target's own name is {thing.name!r}")
    return thing


def _read(path: Path) -> Target:
    data = read_json(path, TargetError)
    if not isinstance(data, dict):
        raise TargetError(f"{path} does not describe a target: it is not an object.")
    try:
        return _target(cast("dict[str, Any]", data))
    except KeyError as error:
        raise TargetError(f"{path} does not describe a target: {error.args[0]!r} is missing.") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise TargetError(f"{path} does not describe a target: {str(error).rstrip('.?')}.") from None


def _target(data: dict[str, Any]) -> Target:
    base = data.pop("based_on", None)
    if base is not None:
        data = {**_shipped(str(base)), **data}
    known = [each.name for each in fields(Target) if each.name != "off_device"]
    for key in data:
        if key not in known:
            raise ValueError(f"unknown key {key!r}; expected {', '.join(known)}")
    absent = _types(data.get("lacks", []))
    fallback = None if data.get("fallback") is None else _target(_shipped(str(data["fallback"])))
    off_device = frozenset[DataType]() if fallback is None else frozenset(filter(_taken_by(fallback), absent))
    lacks = absent - off_device
    return Target(
        name=str(data["name"]),
        description=str(data["description"]),
        newest_opset=_number(data, "newest_opset", NEWEST_OPSET),
        newest_ir_version=_number(data, "newest_ir_version", _NEWEST_IR),
        lacks=lacks,
        kernels={dtype: row for dtype, row in _kernels(data.get("kernels", [])).items() if dtype not in absent},
        fallback=fallback,
        off_device=off_device,
        quantization=_rules(data.get("quantization", {})),
        one_type=cast("dict[str, str]", dict(data.get("one_type", {}))),
        dropped=_kernels(data.get("dropped", [])),
        wrong_fusions=tuple(
            WrongFusion(_types(entry["types"]), frozenset(entry["operators"]), str(entry["how"]))
            for entry in data.get("wrong_fusions", [])
        ),
        wrong_casts=tuple(_wrong_cast(entry) for entry in data.get("wrong_casts", [])),
        sequence_operators=cast("dict[str, int]", dict(data.get("sequence_operators", {}))),
        as_written=str(data.get("as_written", "")),
        hazards=cast("dict[str, str]", dict(data.get("hazards", {}))),
        probed=frozenset(data.get("probed", [])),
        domains=frozenset(map(str, data.get("domains", []))).union(() if fallback is None else fallback.domains),
        unknown=_unknown(data),
        evidence=str(data.get("evidence", "")),
    )


def _taken_by(fallback: Target) -> Callable[[DataType], bool]:
    """Return a test for the types that nodes of the fallback take; those that have a lowering are lowered."""
    lowered = {*CODED_TYPES, *HALF_TYPES, *fallback.lacks}
    return lambda dtype: dtype not in lowered and bool(fallback.kernels.get(dtype))


def _shipped(name: str) -> dict[str, Any]:
    """Return the content of the file of a target that comes with Castsmith."""
    if name not in _own_names():
        raise ValueError(f"unknown target {name!r}; expected {', '.join(_own_names())}")
    return cast("dict[str, Any]", read_json(TARGETS_FOLDER / f"{name}.json", TargetError))


def _number(data: dict[str, Any], key: str, unknown: int) -> int:
    value = data[key]
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31):
        raise ValueError(f"{key} must be an integer of at least 1, not {value!r}")
    return unknown if value is None else value


def _unknown(data: dict[str, Any]) -> tuple[str, ...]:
    """Return the fields that the file lists as unknown, and those that are null."""
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
        inherent=bool(entry.get("inherent", False)),
    )


def _kernels(entries: list[dict[str, Any]]) -> dict[DataType, Mapping[str, int]]:
    return {
        dtype: cast("dict[str, int]", dict(entry["operators"])) for entry in entries for dtype in _types(entry["types"])
    }


def _rules(given: dict[str, Any]) -> dict[str, str]:
    for name in given:
        if name not in QUANTIZATION_RULES:
            raise ValueError(f"unknown rule {name!r} of 'quantization'; expected {', '.join(QUANTIZATION_RULES)}")
    return {name: str(source) for name, source in given.items()}


def _types(names: list[str]) -> frozenset[DataType]:
    return frozenset(parse_type(name) for name in names)
