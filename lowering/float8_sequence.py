"""Which sequence makes codes from floats, and the opset that it asks the model to move to."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.targets import Target
from castsmith.ir.text import site_of
from castsmith.lowering.errors import OptionError
from castsmith.lowering.float8_needs import Coded, Types, is_coded
from castsmith.lowering.opset import node_obstacle
from castsmith.lowering.sequences import ARITHMETIC_HAZARDS, WITHSTANDS, Sequence
from castsmith.lowering.storage import declared_values

_NAMES = ("auto", *(sequence.value for sequence in Sequence))


def choose_sequence(
    model: onnx_ir.Model,
    target: Target,
    name: str,
    opset: int,
    types: Types,
    coded: Coded,
    expanding: Collection[onnx_ir.Node],
) -> tuple[Sequence, int | None]:
    """The sequence that `name` asks for, and the opset to move the model to for it, None where it can stay.

    `expanding` are the nodes that will be gone by then. Raises OptionError where one is asked for that cannot be.
    """
    if name not in _NAMES:
        raise OptionError(f"{name!r} is no sequence; the sequences are {', '.join(_NAMES)}.")
    by_arithmetic = Sequence.UFP if target.as_written else Sequence.LADDER
    if name in (Sequence.UFP.value, Sequence.LADDER.value):
        return Sequence(name), None
    if not any(_makes_codes(node, types, coded) for node in expanding):
        return by_arithmetic, None
    wanted = Sequence.TABLE if name == "auto" else Sequence(name)
    first = target.sequence_operators.get("BitCast")
    if first is None or first > target.newest_opset:
        reason = f"{target.name} has no BitCast"
    elif opset >= first:
        return wanted, None
    else:
        reason = _first_obstacle(model, first, types, expanding)
        if reason is None:
            return wanted, first
    if name != "auto":
        raise OptionError(f"The sequence {name} cannot be had: {reason}.")
    return by_arithmetic, None


def hazards_met(model: onnx_ir.Model, target: Target, sequence: Sequence, types: Types) -> frozenset[str]:
    """Those of the target's hazards that could change what the sequence computes in this model."""
    met = ARITHMETIC_HAZARDS & target.hazards.keys() - WITHSTANDS[sequence]
    has_double = any(types.get(value, value.dtype) == DataType.DOUBLE for value in declared_values(model))
    return met if has_double else met - {"double-is-float"}


def _makes_codes(node: onnx_ir.Node, types: Types, coded: Coded) -> bool:
    """Whether codes are made from what is not codes already."""
    return is_coded(node.outputs[0], types, coded) and not is_coded(node.inputs[0], types, coded)


def _first_obstacle(model: onnx_ir.Model, to: int, types: Types, expanding: Collection[onnx_ir.Node]) -> str | None:
    for scope in (model.graph, *model.functions.values()):
        now = opset_of(scope.opset_imports, "")
        for node in scope.all_nodes():
            if now is None or node in expanding or node.domain not in DEFAULT_DOMAINS:
                continue
            reason = None if node.op_identifier() in model.functions else node_obstacle(node, now, to, types)
            if reason is not None:
                return f"{site_of(node)} cannot move to opset {to}, because {reason}"
    return None
