"""Facts about the values of a model whose precision is chosen: types, constants, and what of constants a value carries.

A constant that does not fit the precision, or holds mask values, counts for all values that hold its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.handed_on import handed_on
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import OF_OPERANDS, Moves
from castsmith.ir.walks import all_nodes, all_values
from castsmith.numerics.embedding import embeds
from castsmith.passes.precision.constants import NOTHING, Carried, RoundingLoss, RoundingLosses, unfit
from castsmith.passes.precision.operators import BOUNDS, MASK_PASSES
from castsmith.passes.precision.ports import Aim

_FOLLOWED = OF_OPERANDS | {Moves.WRITE}
"""Moves of elements whose results are still constants."""


@dataclass
class Facts:
    """Types and constants of a model before its conversion, found on demand, apart from constants, which `trace` finds.

    Attributes:
        inference: The element types of the model.
        aim: The precision and the types that are converted.
        losses: The effects of rounding constants.
        constants: The constants of these types.
        carried: What values hold of constants.
    """

    inference: Inference
    aim: Aim
    losses: RoundingLosses
    constants: dict[onnx_ir.Value, onnx_ir.TensorProtocol] = field(
        default_factory=dict[onnx_ir.Value, onnx_ir.TensorProtocol]
    )
    carried: dict[onnx_ir.Value, Carried] = field(default_factory=dict[onnx_ir.Value, Carried])
    _types: dict[onnx_ir.Value | None, DataType | None] = field(
        default_factory=dict["onnx_ir.Value | None", "DataType | None"]
    )

    def concerns(self, value: onnx_ir.Value | None) -> bool:
        """True if the value has a type that is converted."""
        return self.source(value) in self.aim.sources

    def source(self, value: onnx_ir.Value | None) -> DataType | None:
        """Return the type of the value before the conversion."""
        if value not in self._types:
            self._types[value] = self.inference.type_of(value)
        return self._types[value]

    def loss(self, value: onnx_ir.Value) -> RoundingLoss:
        """Return the effects of rounding the constant."""
        return self.losses.of(self.constants[value])

    def carry_of(self, value: onnx_ir.Value) -> Carried:
        """Return the facts about constants that the value carries."""
        if value not in self.constants:
            return self.carried.get(value, NOTHING)
        loss = self.loss(value)
        why = "" if loss.is_mask else unfit(value.name or "a constant", loss, self.aim.to)
        return Carried(why, (value,) if loss.is_mask else (), constant=True)

    def trace(self, model: onnx_ir.Model) -> None:
        """Note the constants of the model, and what of them each value holds.

        Calls and control flow hand facts on, and loops hand them back: the walk is repeated while that adds some.
        """
        for value in all_values(model):
            tensor = constant_tensor(value)
            if tensor is not None and self.concerns(value):
                self.constants[value] = tensor
        nodes = list(all_nodes(model))
        handed = [pair for node in nodes for pair in handed_on(model, node)]
        for node in nodes:  # a loop of no turns gives what it starts with
            if node.op_type == "Loop" and node.domain in DEFAULT_DOMAINS:
                handed += zip(node.inputs[2:], node.outputs, strict=False)
        adds = True
        while adds:
            for node in nodes:
                self._carry(node)
            received = [self._receive(receiver, self.carry_of(source)) for source, receiver in handed if source]
            adds = any(received)

    def _receive(self, receiver: onnx_ir.Value, carried: Carried) -> bool:
        """Note what is handed on to a value; True if it is new."""
        before = self.carry_of(receiver)
        after = Carried(before.unfit or carried.unfit, tuple(dict.fromkeys((*before.masks, *carried.masks))))
        if after in (before, NOTHING):
            return False
        self.carried[receiver] = after
        return True

    def _carry(self, node: onnx_ir.Node) -> None:
        """Note the facts that the outputs of the node carry."""
        if node.domain not in DEFAULT_DOMAINS:
            return
        filling = self.filling(node)
        if filling is not None:
            why = self.unfit_filling(node)
            self.carried[node.outputs[0]] = Carried(why, (node.outputs[0],) if filling.is_mask else (), constant=True)
            return
        row = traits_of(node.domain, node.op_type)
        indexes = range(len(node.inputs)) if row.elements is None else row.elements
        inputs = [v for i in indexes if i < len(node.inputs) and (v := node.inputs[i]) is not None]
        concerned = [value for value in inputs if self.concerns(value)]
        moves = row.moves in _FOLLOWED
        arithmetic = node.op_type in MASK_PASSES
        if not moves and not arithmetic:
            return
        facts = [self.carry_of(value) for value in concerned]
        if not concerned:  # a cast of others
            source, present_type = self.source(node.inputs[0]), self.source(node.outputs[0])
            counts = source is not None and source != self.aim.to
            held = any(dtype is None or embeds(dtype, self.aim.to) for dtype in (source, present_type))
            carried = Carried(counts=counts, integers=not held)
        else:
            whole = len(concerned) == len(inputs)
            carried = Carried(
                next((operand.unfit for operand in facts if operand.unfit), "") if moves else "",
                tuple(dict.fromkeys(mask for operand in facts for mask in operand.masks)),
                counts=whole and self.are_counts(concerned),
                integers=any(operand.integers for operand in facts),
                constant=whole and moves and all(operand.constant for operand in facts),
            )
            if arithmetic and node.op_type == "Mul" and len(concerned) == 2:
                carried = self._with_scaled_count(node, concerned, carried)
        self.carried.update((value, carried) for value in node.outputs if self.concerns(value))

    def _with_scaled_count(self, node: onnx_ir.Node, inputs: Sequence[onnx_ir.Value], carried: Carried) -> Carried:
        large = [v for v in inputs if v in self.constants and self.loss(v).overflow and self.scales_count(node, v)]
        return replace(carried, masks=(*carried.masks, *large))

    def unfit_filling(self, node: onnx_ir.Node) -> str:
        """Return the reason why the filling of a ConstantOfShape does not fit."""
        loss = self.filling(node)
        return "" if loss is None or loss.is_mask else unfit("its filling", loss, self.aim.to)

    def filling(self, node: onnx_ir.Node) -> RoundingLoss | None:
        """Return the effects of rounding the filling of a ConstantOfShape; None for other nodes and types."""
        attribute = node.attributes.get("value") if node.op_type == "ConstantOfShape" else None
        if attribute is None or attribute.is_ref() or attribute.as_tensor().dtype not in self.aim.sources:
            return None
        return self.losses.of(attribute.as_tensor())

    def is_bound(self, node: onnx_ir.Node, index: int) -> bool:
        """True if the input is a bound: one beyond all numbers has no effect, and becomes infinity."""
        bounds = BOUNDS.get(node.op_type, ()) if node.domain in DEFAULT_DOMAINS else ()
        return bounds is None or index in bounds

    def scales_count(self, node: onnx_ir.Node, value: onnx_ir.Value) -> bool:
        """True if a large constant multiplies values computed from integers: `(mask - 1) * 1e9`."""
        factors = [operand for operand in node.inputs if operand is not None]
        return node.op_type == "Mul" and self.constants[value].size == 1 and self.are_counts(factors)

    def are_counts(self, inputs: Sequence[onnx_ir.Value]) -> bool:
        """True if the values are computed only from integers, predicates and constants, and not from these alone."""
        facts = [self.carry_of(value) for value in inputs]
        return all(value.counts or value.constant for value in facts) and any(value.counts for value in facts)
