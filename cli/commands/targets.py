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

    from castsmith.targets.statements import WrongCast
    from castsmith.targets.target import Target


def run(arguments: argparse.Namespace) -> int:
    names, complete = usable(target_names(), load_target)
    targets = [load_target(name) for name in names]
    if arguments.json:
        fields = [(target.name, target.description, aliases_of(target.name)) for target in targets]
        print_json({"targets": [{"name": n, "description": text, "aliases": aliases} for n, text, aliases in fields]})
    else:
        print_lines(table_lines((target.name, _with_aliases(target)) for target in targets))
    return DONE if complete else UNUSABLE


def _with_aliases(target: Target) -> str:
    """Return the description of a target, and the other names that lead to it."""
    from castsmith.targets.target import aliases_of

    aliases = aliases_of(target.name)
    return f"{target.description} (also {', '.join(aliases)})" if aliases else target.description


def run_probe(arguments: argparse.Namespace) -> int:
    from castsmith.conformance.probing import probe, target_text

    statements = probe(name_of_target(arguments.name))
    if arguments.json:
        print_json({"target": statements})
    else:
        print_text(target_text(statements))
    return DONE


def run_show(arguments: argparse.Namespace) -> int:
    target = load_target(name_of_target(arguments.name))
    if arguments.json:
        print_json({"target": _as_data(target)})
    else:
        print_lines(_as_lines(target))
    return DONE


def _as_lines(target: Target) -> Iterator[Line]:
    yield Line((("bold", target.name), ("", f": {target.description}")), 4)
    for text in _facts(target):
        yield Line((("", text),), len(text) - len(text.lstrip()) + 4)
    if target.hazards:
        yield Line((("", "  hazards:"),))
        yield from table_lines(target.hazards.items(), "    ")


def _facts(target: Target) -> Iterator[str]:
    if target.release:
        newest = f"{target.newest_release} is the newest seen" if target.newest_release else "the newest is unknown"
        yield f"  release {target.release}{' (out of date)' if target.is_stale else ''}; {newest}"
    yield f"  newest opset {_number(target, 'newest_opset')}, newest IR version {_number(target, 'newest_ir_version')}"
    unknown = "unknown" if "types" in target.unknown else ""
    yield f"  types: {unknown or ', '.join(_names(target.types)) or 'none'}"
    yield f"  unsupported types: {unknown or ', '.join(_names(target.lacks)) or 'nothing'}"
    if "kernels" in target.unknown:
        yield "  operators by type: unknown"
    if target.held:
        holders = (f"{_names([dtype])[0]} in {_names([holder])[0]}" for dtype, holder in target.held.items())
        yield f"  holds: {', '.join(holders)}"
    if target.casts is not None:
        yield f"  rejected casts: {', '.join(_refused(target)) or 'none'}"
    since = [f"{name} (opset {opset})" for name, opset in target.operators_on_float8.items()]
    if since:
        yield f"  float8 in: {', '.join(since)}"
    if target.wrong_casts:
        yield "  casts that it computes differently from the standard:"
    for entry in target.wrong_casts:
        yield f"    {_cast_text(entry)}"
        yield f"      {entry.wrong}"
    if target.as_written:
        yield f"  computes as written: {target.as_written}"
    if target.evidence:
        yield "  evidence:"
    for key, source in target.evidence.items():
        yield f"    {key}: {source}" if key else f"    {source}"


def _number(target: Target, key: str) -> str:
    return "unknown" if key in target.unknown else str(getattr(target, key))


def _refused(target: Target) -> Iterator[str]:
    """Yield the casts between types of the target that it does not load, those of one type together."""
    for source, loaded in (target.casts or {}).items():
        refused = (target.casts or {}).keys() - loaded - {source}
        if refused:
            yield f"{_names([source])[0]} to {' and '.join(_names(refused))}"


def _cast_text(entry: WrongCast) -> str:
    conditions = [] if entry.saturate is None else [f"saturate = {int(entry.saturate)}"]
    if entry.before_opset is not None:
        conditions.append(f"before opset {entry.before_opset}")
    if entry.disputed:
        conditions.append("disputed")
    if entry.inherent:
        conditions.append("left to it")
    sides = f"{', '.join(_names(entry.sources))} to {', '.join(_names(entry.targets))}"
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
