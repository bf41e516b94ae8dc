"""Every pair of element types between which a target casts, executed in the installed runtime.

python -m tests.targets.cast_pairs openvino-cpu [TYPE ...]    print what is refused or wrong, of these sources
python -m tests.targets.cast_pairs openvino-cpu --write       write the pairs that load into the file of the target

A runtime may hold a type in another, so that only what follows shows a wrong cast: each pair is cast as an output, and
is read, moved, and computed with, by casts and operators after it, or follows another cast. The values are those at
which a conversion can change (`castsmith.numerics.critical`); what the standard leaves open is not compared.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir
from onnx_ir import DataType

from castsmith.conformance.engines.running import run
from castsmith.conformance.exporting import ir_version
from castsmith.conformance.judging import Outcome
from castsmith.conformance.probing import target_text
from castsmith.conformance.vectors import Operand, Vector
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import FIRST_OPSET
from castsmith.numerics.critical import critical_values
from castsmith.numerics.embedding import embeds
from castsmith.numerics.status import judge_cast
from castsmith.numerics.types import NUMERIC_TYPES, Kind, element_type, type_name
from castsmith.targets.target import TARGETS_FOLDER, Target, load_target

Array = npt.NDArray[Any]

ENGINES = {"openvino-cpu": "openvino", "onnxruntime-cpu": "onnxruntime"}
"""The targets whose pairs are measured, and the engine of the conformance suite that runs each."""

OPSET = 26
_OF_MODEL = {"openvino": "input"}
"""Engines whose models have inputs; others have initializers that may be overridden, so that no cast is folded."""
WIDE = (DataType.FLOAT, DataType.DOUBLE, DataType.INT64, DataType.UINT64)
"""Types from which others are cast in a chain."""


@dataclass(frozen=True)
class Pair:
    """One cast: its types and attributes."""

    source: DataType
    to: DataType
    saturate: bool = True
    round_mode: str = "up"

    def __str__(self) -> str:
        words = [type_name(self.source), "to", type_name(self.to)]
        words += ([] if self.saturate else ["no_saturate"]) + ([] if self.round_mode == "up" else [self.round_mode])
        return "_".join(words)

    def node(self, value: onnx_ir.Value) -> onnx_ir.Node:
        given: dict[str, Any] = {} if self.saturate else {"saturate": 0}
        given |= {} if self.round_mode == "up" else {"round_mode": self.round_mode}
        return _node("Cast", [value], self.to, to=int(self.to), **given)


def pairs(sources: Iterable[DataType], types: Iterable[DataType]) -> Iterator[Pair]:
    """Yield the casts between different types that Cast distinguishes at `OPSET`."""
    targets = [dtype for dtype in types if (FIRST_OPSET.get(dtype) or OPSET + 1) <= OPSET]
    for source in sources:
        for to in targets:
            row = element_type(to)
            modes = ("up", "down", "nearest") if to is DataType.FLOAT8E8M0 else ("up",)
            eight = row.kind is Kind.FLOATING and row.bits == 8
            if source is not to and source in targets:
                settings = (True, False) if eight else (True,)
                yield from (Pair(source, to, saturate, mode) for mode in modes for saturate in settings)


def reader(dtype: DataType, target: Target) -> DataType | None:
    """Return the type by which values of the type are read: float, and of float a double that is one."""
    if dtype is not DataType.FLOAT:
        return DataType.FLOAT
    return None if DataType.DOUBLE in target.narrowed else DataType.DOUBLE


def wider(dtype: DataType) -> DataType | None:
    """Return a type that holds all values of this one."""
    return next((wide for wide in WIDE if wide is not dtype and embeds(dtype, wide)), None)


def _node(op_type: str, inputs: list[onnx_ir.Value], dtype: DataType, **attributes: Any) -> onnx_ir.Node:
    node = onnx_ir.node(op_type, inputs, attributes)
    node.outputs[0].type = onnx_ir.TensorType(dtype)
    return node


def _constant(name: str, array: Array) -> onnx_ir.Value:
    return onnx_ir.Value(name=name, type=onnx_ir.TensorType(DataType.INT64), shape=onnx_ir.Shape(array.shape),
                         const_value=onnx_ir.tensor(array, name=name))  # fmt: skip


def contexts(pair: Pair, target: Target) -> Iterator[tuple[str, DataType, list[onnx_ir.Node]]]:
    """Yield models of the cast: a name, the type of the input, and the nodes, the last of which makes the output."""

    def start(dtype: DataType = pair.source) -> onnx_ir.Value:
        return onnx_ir.Value(name="input", type=onnx_ir.TensorType(dtype))

    def has(op_type: str, dtype: DataType) -> bool:
        return target.has_kernel(op_type, dtype, OPSET)

    yield "output", pair.source, [pair.node(start())]
    wide, above = reader(pair.to, target), wider(pair.source)
    if wide is not None:
        first = pair.node(start())
        yield "read", pair.source, [first, _cast(first, wide)]
        first = pair.node(start())
        middle = list(_moved(first, pair.to, target))
        if middle:
            yield "moved", pair.source, [first, *middle, _cast(middle[-1], wide)]
        if has("Max", pair.to):
            first = pair.node(start())
            same = _node("Max", [first.outputs[0], first.outputs[0]], pair.to)
            yield "computed", pair.source, [first, same, _cast(same, wide)]
    if has("Max", pair.source):
        x = start()
        same = _node("Max", [x, x], pair.source)
        yield "after", pair.source, [same, pair.node(same.outputs[0])]
    if above is not None:
        first = _node("Cast", [start(above)], pair.source, to=int(pair.source))
        yield "chain", above, [first, pair.node(first.outputs[0])]


def _cast(node: onnx_ir.Node, to: DataType) -> onnx_ir.Node:
    return _node("Cast", [node.outputs[0]], to, to=int(to))


def _moved(node: onnx_ir.Node, dtype: DataType, target: Target) -> Iterator[onnx_ir.Node]:
    """Yield nodes that move the vector and give it back, if the target has kernels for them."""
    value = node.outputs[0]
    if all(target.has_kernel(name, dtype, OPSET) for name in ("Concat", "Slice")):
        twice = _node("Concat", [value, value], dtype, axis=0)
        shape, zero = _node("Shape", [value], DataType.INT64), _constant("zero", np.array([0]))
        yield from (twice, shape, _node("Slice", [twice.outputs[0], zero, shape.outputs[0]], dtype))
    elif all(target.has_kernel(name, dtype, OPSET) for name in ("Unsqueeze", "Squeeze")):
        axis = _constant("axis", np.array([0]))
        column = _node("Unsqueeze", [value, axis], dtype)
        yield from (column, _node("Squeeze", [column.outputs[0], axis], dtype))


def vectors(pair: Pair, target: Target, engine: str) -> Iterator[Vector]:
    """Yield the vectors of a pair: each context, with the result that the standard requires."""
    settings: dict[str, Any] = {"saturate": pair.saturate, "round_mode": pair.round_mode, "opset": OPSET}
    for name, dtype, nodes in contexts(pair, target):
        values = data = critical_values(pair.source, pair.to)
        if dtype is not pair.source:  # the model makes the values of a wider type
            data = cast(values, dtype)
            values = cast(data, pair.source, opset=OPSET)
        result, spans = cast(values, pair.to, **settings), judge_cast(values, pair.to, **settings).spans()
        to = nodes[-1].outputs[0].dtype or pair.to
        expected = result if to is pair.to else cast(result, to)
        operand = Operand("input", data, "")
        vector = Vector(f"{pair}_{name}", "Cast", OPSET, OPSET, {}, [operand], expected, spans, "")
        yield replace(vector, model=_model(vector, nodes, as_input=engine in _OF_MODEL))


def _model(vector: Vector, nodes: list[onnx_ir.Node], *, as_input: bool) -> bytes:
    x, y = next(v for n in nodes for v in n.inputs if v is not None and v.name == "input"), nodes[-1].outputs[0]
    data = vector.inputs[0].elements
    x.shape, y.shape, y.name = onnx_ir.Shape(data.shape), onnx_ir.Shape(data.shape), "output"
    constants = {v.name: v for n in nodes for v in n.inputs if v is not None and v.const_value is not None}
    if not as_input:
        x.const_value = onnx_ir.tensor(data, name="input") if data.dtype.names is None else None
        constants["input"] = x
    graph = onnx_ir.Graph(
        [x], [y], nodes=nodes, initializers=list(constants.values()), opset_imports={"": OPSET}, name=vector.name
    )
    types = [v.dtype for n in nodes for v in (*n.inputs, *n.outputs) if v is not None and v.dtype is not None]
    model = onnx_ir.Model(graph, ir_version=ir_version(OPSET, types), producer_name="castsmith")
    return onnx_ir.to_proto(model).SerializeToString()


def measured(name: str, cases: Iterable[Pair]) -> tuple[str, dict[Pair, dict[str, Outcome]]]:
    """Return the version of the runtime of a target, and the outcomes for each pair, by context."""
    engine, target = ENGINES[name], load_target(name)
    asked = [(pair, vector) for pair in cases for vector in vectors(pair, target, engine)]
    made = run(engine, [vector for _, vector in asked])
    found: dict[Pair, dict[str, Outcome]] = {}
    for (pair, vector), outcome in zip(asked, made.outcomes, strict=True):
        found.setdefault(pair, {})[vector.name.rpartition("_")[2]] = outcome
    return made.version, found


def loads(outcomes: dict[str, Outcome]) -> bool:
    """True if the runtime computes the cast in every context."""
    return all(each.status in ("right", "wrong") for each in outcomes.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=sorted(ENGINES))
    parser.add_argument("types", nargs="*")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    target = load_target(options.target)
    taken = [dtype for dtype in NUMERIC_TYPES if target.has_kernel("Cast", dtype, OPSET) and dtype not in target.lacks]
    sources = [dtype for dtype in taken if not options.types or type_name(dtype) in options.types]
    version, found = measured(options.target, pairs(sources, taken))
    for pair, outcomes in found.items():
        for context, each in outcomes.items():
            if each.status != "right":
                first = "" if each.first is None else f"{each.first.input}: {each.first.got}, not {each.first.expected}"
                reason = each.reason.replace("\n", " ")[-100:]
                print(f"{pair}\t{context}\t{each.status}\t{each.wrong}/{each.elements}\t{first or reason}", flush=True)
    if options.write and not options.types:
        _write(options.target, version, found, taken)


def _write(name: str, version: str, found: dict[Pair, dict[str, Outcome]], taken: list[DataType]) -> None:
    """Write the pairs that load into the file of the target, sources with the same ones together."""
    refused = {(pair.source, pair.to) for pair, outcomes in found.items() if not loads(outcomes)}
    groups: dict[tuple[str, ...], list[str]] = {}
    for source in taken:
        to = tuple(type_name(dtype) for dtype in taken if (source, dtype) not in refused)
        groups.setdefault(to, []).append(type_name(source))
    path = TARGETS_FOLDER / f"{name}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["casts"] = [{"from": sources, "to": list(to)} for to, sources in groups.items()]
    count, date = sum(map(len, found.values())), datetime.datetime.now(datetime.UTC).date()
    data["evidence"]["casts"] = (
        f"{date}, release {version}: {len(found)} casts between pairs of types, executed in {count} models on the"
        " values at which a conversion can change, by python -m tests.targets.cast_pairs"
    )
    path.write_text(target_text(data), encoding="utf-8")


if __name__ == "__main__":
    main()
