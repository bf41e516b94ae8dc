"""castsmith targets: the runtimes that a model can be legalized for, and the facts about each."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from castsmith.cli.exit_codes import DONE, UNUSABLE
from castsmith.cli.extensions import usable
from castsmith.cli.running import name_of_target
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import Line, print_text, table_lines
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from castsmith.targets.target import aliases_of, load_target, target_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onnx_ir import DataType

    from castsmith.targets.target import Target


def run(arguments: argparse.Namespace) -> int:
    names, complete = usable(target_names(), load_target)
    targets = [load_target(name) for name in names]
    fields = [(target.name, target.description, aliases_of(target.name)) for target in targets]
    if arguments.json:
        print_json({"targets": [{"name": n, "description": text, "aliases": aliases} for n, text, aliases in fields]})
    else:
        also = {name: f" (also {', '.join(aliases)})" if aliases else "" for name, _, aliases in fields}
        print_lines(table_lines((name, f"{text}{also[name]}") for name, text, _ in fields))
    return DONE if complete else UNUSABLE


def run_probe(arguments: argparse.Namespace) -> int:
    from castsmith.conformance.probing import probe, target_text

    statements = probe(name_of_target(arguments.name))
    if arguments.json:
        print_json({"target": statements})
    else:
        print_text(target_text(statements))
    return DONE


def run_show(arguments: argparse.Namespace) -> int:
    data = _as_data(load_target(name_of_target(arguments.name)))
    if arguments.json:
        print_json({"target": data})
        return DONE
    head = Line((("bold", data["name"]), ("", f": {data['description']}")), 4)
    print_lines([head, *(Line((("", text),), len(text) - len(text.lstrip()) + 4) for text in _facts(data))])
    if data["hazards"]:
        print_lines([Line((("", "  hazards:"),)), *table_lines(data["hazards"].items(), "    ")])
    return DONE


def _facts(data: dict[str, Any]) -> Iterator[str]:
    if data["release"]:
        newest = f"{data['newest_release']} is the newest seen" if data["newest_release"] else "the newest is unknown"
        yield f"  release {data['release']}{' (out of date)' if data['is_stale'] else ''}; {newest}"
    newest_opset, newest_ir = (data[key] or "unknown" for key in ("newest_opset", "newest_ir_version"))
    yield f"  newest opset {newest_opset}, newest IR version {newest_ir}"
    unknown = "unknown" if "types" in data["unknown"] else ""
    yield f"  types: {unknown or ', '.join(data['types']) or 'none'}"
    yield f"  unsupported types: {unknown or ', '.join(data['lacks']) or 'nothing'}"
    if "kernels" in data["unknown"]:
        yield "  operators by type: unknown"
    if data["held"]:
        yield f"  holds: {', '.join(f'{name} in {holder}' for name, holder in data['held'].items())}"
    if data["casts"] is not None:
        yield f"  rejected casts: {', '.join(_rejected(data)) or 'none'}"
    if data["operators_on_float8"]:
        since = (f"{name} (opset {opset})" for name, opset in data["operators_on_float8"].items())
        yield f"  float8 in: {', '.join(since)}"
    if data["wrong_casts"]:
        yield "  casts that it computes differently from the standard:"
    for wrong_cast in data["wrong_casts"]:
        yield f"    {_cast_text(wrong_cast)}"
        yield f"      {wrong_cast['wrong']}"
    if data["as_written"]:
        yield f"  computes as written: {data['as_written']}"
    if data["evidence"]:
        yield "  evidence:"
    for key, source in data["evidence"].items():
        yield f"    {key}: {source}" if key else f"    {source}"


def _rejected(data: dict[str, Any]) -> Iterator[str]:
    """Yield the casts between types of the target that it does not load, those of one type together."""
    for source, loaded in data["casts"].items():
        rejected = [name for name in data["types"] if name in data["casts"] and name not in (*loaded, source)]
        if rejected:
            yield f"{source} to {' and '.join(rejected)}"


def _cast_text(wrong_cast: dict[str, Any]) -> str:
    conditions = [] if wrong_cast["saturate"] is None else [f"saturate = {int(wrong_cast['saturate'])}"]
    if wrong_cast["before_opset"] is not None:
        conditions.append(f"before opset {wrong_cast['before_opset']}")
    if wrong_cast["disputed"]:
        conditions.append("disputed")
    if wrong_cast["inherent"]:
        conditions.append("left to it")
    sides = f"{', '.join(wrong_cast['from'])} to {', '.join(wrong_cast['to'])}"
    return f"{sides} ({'; '.join(conditions)})" if conditions else sides


def _as_data(target: Target) -> dict[str, Any]:
    return {
        "name": target.name,
        "description": target.description,
        "newest_opset": None if "newest_opset" in target.unknown else target.newest_opset,
        "newest_ir_version": None if "newest_ir_version" in target.unknown else target.newest_ir_version,
        "release": target.release,
        "newest_release": target.newest_release,
        "is_stale": target.is_stale,
        "types": _names(target.types),
        "lacks": _names(target.lacks),
        "unknown": list(target.unknown),
        "casts": None if target.casts is None else {_names([k])[0]: _names(v) for k, v in target.casts.items()},
        "held": {_names([dtype])[0]: _names([holder])[0] for dtype, holder in target.held.items()},
        "sums": {op_type: type_name(dtype) for op_type, dtype in target.sums.items()},
        "operators_on_float8": dict(target.operators_on_float8),
        "wrong_casts": [
            {
                "from": _names(entry.sources),
                "to": _names(entry.targets),
                "saturate": entry.saturate,
                "before_opset": entry.before_opset,
                "disputed": entry.disputed,
                "inherent": entry.inherent,
                "wrong": entry.wrong,
                "evidence": entry.evidence,
            }
            for entry in target.wrong_casts
        ],
        "as_written": target.as_written,
        "hazards": dict(target.hazards),
        "evidence": dict(target.evidence),
    }


def _names(types: Iterable[DataType]) -> list[str]:
    """Return the names of the types in the order of the table of types, narrow to wide."""
    chosen = set(types)
    return [type_name(dtype) for dtype in ELEMENT_TYPES if dtype in chosen]
