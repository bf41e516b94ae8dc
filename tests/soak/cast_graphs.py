"""Random graphs of casts and moves, lowered for a target and executed in its runtime: what differs must be reported.

python -m tests.soak.cast_graphs openvino-cpu 1000 [SEED]    print how many are exact, reported and silently wrong
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

import castsmith
from castsmith.conformance.engines.running import run
from castsmith.conformance.exporting import ir_version
from castsmith.conformance.vectors import Operand, Vector
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.critical import critical_values
from castsmith.numerics.status import Definedness, Span, cast_status
from castsmith.numerics.types import CODED_TYPES, NUMERIC_TYPES, Kind, element_type
from castsmith.targets.target import load_target
from tests.targets.cast_pairs import ENGINES

OPSET = 26
PLAIN = [dtype for dtype in NUMERIC_TYPES if dtype not in CODED_TYPES]
"""Types of inputs and outputs: those that can be codes may become uint8 there."""
_OTHER_CODES = ("lossy-cast-chain", "double-rounding", "nan-lost-in-chain")
"""Findings about the values of the model, for any runtime."""
_LONGEST = 5


@dataclass(frozen=True)
class Step:
    """A cast, or a move of the vector that gives it back."""

    op_type: str
    to: DataType
    saturate: bool = True


def random_steps(random: Random, types: list[DataType]) -> tuple[DataType, list[Step]]:
    """Return the type of the input, and the steps from it to an output of a plain type."""
    source = current = random.choice([dtype for dtype in PLAIN if dtype in types])
    steps: list[Step] = []
    count = random.randint(1, _LONGEST)
    for index in range(count):
        pool = types if index < count - 1 else [dtype for dtype in PLAIN if dtype in types]
        to = random.choice([dtype for dtype in pool if dtype is not current])
        row = element_type(to)
        eight = row.kind is Kind.FLOATING and row.bits == 8
        steps.append(Step("Cast", to, not eight or random.random() < 0.6))
        current = to
        if random.random() < 0.4:
            steps.append(Step(random.choice(["Reshape", "Transpose", "Unsqueeze"]), current))
    return source, steps


def model_of(source: DataType, steps: list[Step], count: int) -> onnx_ir.Model:
    """Return the model of the steps, of a vector of the count."""
    value = start = onnx_ir.Value(name="input", type=onnx_ir.TensorType(source), shape=onnx_ir.Shape([count]))
    nodes: list[onnx_ir.Node] = []
    constants = {name: _constant(name, array) for name, array in (("shape", [-1]), ("axis", [0]))}
    used: dict[str, onnx_ir.Value] = {}

    def add(op_type: str, inputs: list[onnx_ir.Value], dtype: DataType, **attributes: Any) -> onnx_ir.Value:
        nodes.append(onnx_ir.node(op_type, inputs, attributes))
        nodes[-1].outputs[0].type = onnx_ir.TensorType(dtype)
        return nodes[-1].outputs[0]

    for step in steps:
        if step.op_type == "Cast":
            value = add("Cast", [value], step.to, to=int(step.to), **({} if step.saturate else {"saturate": 0}))
        elif step.op_type == "Unsqueeze":
            used["axis"] = constants["axis"]
            value = add("Squeeze", [add("Unsqueeze", [value, used["axis"]], step.to), used["axis"]], step.to)
        elif step.op_type == "Reshape":
            used["shape"] = constants["shape"]
            value = add("Reshape", [value, used["shape"]], step.to)
        else:
            value = add("Transpose", [value], step.to, perm=[0])
    value.name, value.shape = "output", onnx_ir.Shape([count])
    graph = onnx_ir.Graph([start], [value], nodes=nodes, initializers=list(used.values()), opset_imports={"": OPSET})
    graph.name = "casts"
    return onnx_ir.Model(graph, ir_version=ir_version(OPSET, [source, *(step.to for step in steps)]))


def _constant(name: str, numbers: list[int]) -> onnx_ir.Value:
    tensor = onnx_ir.tensor(np.array(numbers, np.int64), name=name)
    shape = onnx_ir.Shape([len(numbers)])
    return onnx_ir.Value(name=name, type=onnx_ir.TensorType(DataType.INT64), shape=shape, const_value=tensor)


def vector_of(name: str, source: DataType, steps: list[Step], random: Random) -> Vector:
    """Return values at which a step can change, and the output that the standard requires, where it requires one."""
    casts = [step for step in steps if step.op_type == "Cast"]
    values = critical_values(source, *(step.to for step in casts))
    data = values[sorted(random.sample(range(len(values)), min(len(values), 400)))]
    current, left_open = data, np.zeros(len(data), np.bool_)
    for step in casts:
        settings: dict[str, Any] = {"saturate": step.saturate, "opset": OPSET}
        left_open |= np.asarray(cast_status(current, step.to, **settings)) > 0
        current = cast(current, step.to, **settings)
    reason = "a step has no defined result"
    spans = [Span(at, at + 1, Definedness.UNDEFINED, reason) for at in np.flatnonzero(left_open).tolist()]
    return Vector(name, "Cast", OPSET, OPSET, {}, [Operand("input", data, "")], current, spans, "")


def lowered(target: str, count: int, seed: int) -> Iterator[tuple[Vector, list[str]]]:
    """Yield random graphs, lowered for the target, and what was reported about each."""
    random, facts = Random(seed), load_target(target)
    types = [dtype for dtype in NUMERIC_TYPES if dtype in facts.types and facts.has_kernel("Cast", dtype, OPSET)]
    exact = [dtype for dtype in types if dtype not in facts.held or (dtype.is_integer() and dtype.bitwidth < 32)]
    for index in range(count):
        source, steps = random_steps(random, types if random.random() < 0.2 else exact)
        vector = vector_of(f"{index}", source, steps, random)
        result = castsmith.optimize(model_of(source, steps, len(vector.inputs[0].elements)), target=target)
        found = (*result.diagnostics, *castsmith.check(result.model, target=target))
        told = [f"{each.code}: {each.message}" for each in found if each.code not in _OTHER_CODES]
        words = " ".join(f"{s.op_type}:{s.to.name}{'' if s.saturate else ':0'}" for s in steps)
        model = onnx_ir.to_proto(result.model).SerializeToString()
        yield replace(vector, name=f"{source.name} {words}", model=model), told


def silent(target: str, count: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """Return how many graphs were exact, wrong or refused with a report, and those that are so without one."""
    graphs = list(lowered(target, count, seed))
    counts, found = dict[str, int](), list[str]()
    for (vector, told), outcome in zip(graphs, run(ENGINES[target], [v for v, _ in graphs]).outcomes, strict=True):
        kind = f"{outcome.status}, {'reported' if told else 'not reported'}"
        counts[kind] = counts.get(kind, 0) + 1
        if outcome.status != "right" and not told:
            found.append(f"{vector.name}: {outcome.wrong} wrong, {outcome.first} {outcome.reason[-200:]}")
    return counts, found


def main(words: list[str]) -> None:
    counts, found = silent(words[0], int(words[1]), int(words[2]) if words[2:] else 0)
    print(counts, *found, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
