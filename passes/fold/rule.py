"""The rule of fold-constants: the replacement of one node, within the budget, with each constant made once."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir

from castsmith.ir.codes import RefusalCode, Rule
from castsmith.ir.constants import (
    bytes_of_dropped,
    constant_node,
    constant_types,
    growth_reason,
    new_constant,
    use_count,
)
from castsmith.ir.naming import Namer
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.records import Refusal
from castsmith.ir.text import site_of
from castsmith.ir.walks import graph_of
from castsmith.numerics.errors import CastsmithError, present
from castsmith.numerics.status import Definedness, Finding
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import Replacement, lacking_identity
from castsmith.passes.fold.conversions import CastTo, Reading, constant_of, tensor_of
from castsmith.passes.fold.reading import Reader
from castsmith.passes.fold.values import Constants, FoldError, Known
from castsmith.targets.kernels import takes_identity
from castsmith.targets.target import Target

NAME = "fold-constants"

FOLD_CONSTANT = Rule(
    "fold-constant",
    "Conversions of a constant, and operators that only move its elements, become the resulting constant.",
    why="The standard defines every element, so it can be computed ahead of time.",
    example="- q = Cast <to = float16> (w)\n+ float16[4] q = {1, 2, 3, 4}",
    advice="--max-growth 0 keeps casts that make constants larger.",
)
FOLD_UNDEFINED = RefusalCode(
    "fold-undefined",
    "A conversion of a constant is kept, because the result of an element is undefined or disputed.",
    why="Runtimes disagree on that element; its value is the example value.",
    example="Cast <to = int8> (w {1000}): 1000 is out of range",
    advice="Change the constant; --fold-disputed for those that the schema's own table decides.",
    fix="opt-in",
)
FOLD_GROWTH = RefusalCode(
    "fold-growth",
    "A conversion of a constant is kept, because folding would make the file larger than allowed.",
    why="A constant in a wider type takes more bytes in the file than the cast.",
    example="Cast <to = double> of 1 MB of float",
    advice="--max-growth BYTES allows more.",
    fix="on-request",
)
FOLD_INVALID = RefusalCode(
    "fold-invalid",
    "A conversion of a constant is kept, because the operator does not allow it.",
    why="Its attributes, types or shapes violate the schema of the model's opset.",
    example="Reshape of 6 elements to [4]",
    advice="Correct the model.",
    fix="manual",
)


@dataclass(frozen=True)
class Derivation:
    """One output: its constant and derivation. `stands`: an existing value that can be used instead."""

    reading: Reading
    operands: tuple[Known, ...]
    constant: Known
    stands: onnx_ir.Value | None


@dataclass
class Folding:
    """One run over a model: the known constants, and the bytes of tensor data added so far."""

    constants: Constants
    reader: Reader
    holders: Mapping[onnx_ir.Graph, onnx_ir.Node]
    namer: Namer
    max_growth: int
    max_total_growth: int
    tolerated: Definedness
    target: Target | None = None
    fold_as: str = ""
    as_runtime: set[Known] = field(default_factory=set[Known])
    grown: int = 0
    refused: dict[tuple[Known, ...], Refusal] = field(default_factory=dict[tuple[Known, ...], Refusal])

    def fold(self, node: onnx_ir.Node) -> Replacement | Refusal | None:
        """Return the replacement of the node; None if it does not convert constants."""
        try:
            derivations = self._derive(node)
        except CastsmithError as error:
            return Refusal(NAME, FOLD_INVALID.code, site_of(node), str(error))
        if derivations is None:
            return None
        new = {derivation.constant: derivation for derivation in derivations if derivation.stands is None}
        kept = {derivation.stands for derivation in derivations if derivation.stands is not None}
        beside = self._within(node, self.constants.innermost(new))
        as_nodes = self._as_nodes(node, derivations)
        if as_nodes and (beside is not node or kept):
            return self._own_constant(node, derivations[0])
        refusal, dropped = None, bytes_of_dropped([node], kept)
        if not as_nodes:
            refusal = self._without_place(node, beside, derivations)
        refusal = refusal or self._refusal(node, tuple(new.values()), kept, dropped)
        if refusal is not None:
            return refusal
        self.grown += sum(present(constant.tensor, "the tensor").nbytes for constant in new) - dropped
        for output, plan in zip(node.outputs, derivations, strict=True):
            if plan.constant in new:
                # An output of the graph keeps its name, so its replacement needs another one.
                name = f"{output.name}_value" if output.is_graph_output() else output.name
                tensor = present(plan.constant.tensor, "the tensor of the folded constant")
                plan.constant.value = new_constant(name or "folded", tensor)
                self.constants.by_value[plan.constant.value] = plan.constant
        values = tuple(present(constant.value, "the value of the constant") for constant in new)
        return Replacement(
            FOLD_CONSTANT.code,
            _reason(derivations, new) + self._runtime_note(new),
            nodes=tuple(map(constant_node, values)) if as_nodes else (),
            constants=() if as_nodes else values,
            outputs=tuple(present(plan.stands or plan.constant.value, "the value") for plan in derivations),
            beside=beside,
        )

    def forget(self, value: onnx_ir.Value) -> None:
        """Release the tensor of a constant that was removed from the model."""
        constant = self.constants.by_value.get(value)
        if constant is not None and constant.value is value and not _is_there(value):
            constant.value = constant.tensor = constant.moved = None

    def _derive(self, node: onnx_ir.Node) -> list[Derivation] | None:
        """Return the constant of each output. An unused output is left as its operand."""
        if node.op_type == "Cast" and not (node.inputs and self.constants.of(node.inputs[0])):  # as in most cases
            return None
        readings = self.reader.read(node)
        used = _used(node)
        if readings is None or not any(used):
            return None
        derivations: list[Derivation] = []
        for reading, needed in zip(readings, used, strict=False):
            knowns = tuple(constant for value in reading[1] if (constant := self.constants.of(value)) is not None)
            if len(knowns) < len(reading[1]):
                return None
            derivations.append(self._derivation(reading, knowns, needed=needed))
        return derivations if len(derivations) == len(node.outputs) else None

    def _derivation(self, reading: Reading, knowns: tuple[Known, ...], *, needed: bool) -> Derivation:
        conversion, values = reading
        dtype, shape = conversion.result(
            [constant.dtype for constant in knowns], [constant.shape for constant in knowns]
        )
        if not needed or (isinstance(conversion, CastTo) and dtype == knowns[0].dtype):
            return Derivation(reading, knowns, knowns[0], values[0])
        constant = self.constants.converted(conversion, knowns, dtype, shape)
        if constant.value is not None and not _is_there(constant.value):
            constant.value = None  # dropped with its last user, and made again
        return Derivation(reading, knowns, constant, constant.value)

    def _refusal(
        self, node: onnx_ir.Node, new: Sequence[Derivation], kept: Container[onnx_ir.Value], dropped: int
    ) -> Refusal | None:
        """Return the reason why a new constant is refused; None once all are computed.

        Args:
            dropped: The bytes of the tensors that leave with the node.
        """
        key = tuple([derivation.constant for derivation in new])
        if key not in self.refused:
            refusal = self._over_budget(node, new, kept, dropped) or self._not_computed(node, new)
            if refusal is None:
                return None
            self.refused[key] = refusal
        return replace(self.refused[key], site=site_of(node))

    def _as_nodes(self, node: onnx_ir.Node, derivations: Sequence[Derivation]) -> bool:
        """True if a Constant node must make the constant.

        It is an output of the graph, and without an Identity of the type only a Constant can have the output's name.
        """
        output, *others = node.outputs
        if others or not output.is_graph_output() or derivations[0].stands in node.inputs:
            return False
        imports = self.reader.imports[graph_of(node)]
        dtype, opset = derivations[0].constant.dtype, opset_of(imports, "") or 0
        return dtype in constant_types(opset) and not takes_identity(dtype, imports, self.target)

    def _own_constant(self, node: onnx_ir.Node, derivation: Derivation) -> Replacement | Refusal:
        """Return a Constant node in the node's own graph, for a constant that belongs to an outer graph."""
        dropped = bytes_of_dropped([node], ())
        refusal = self._refusal(node, (derivation,), (), dropped)
        if refusal is not None:
            return refusal
        tensor = present(derivation.constant.tensor, "the tensor of the constant")
        self.grown += tensor.nbytes - dropped
        value = new_constant(f"{node.outputs[0].name}_value", tensor)
        reason = _reason([derivation], {derivation.constant: derivation}) + self._runtime_note([derivation.constant])
        return Replacement(FOLD_CONSTANT.code, reason, nodes=(constant_node(value),), outputs=(value,))

    def _without_place(
        self, node: onnx_ir.Node, beside: onnx_ir.Node, derivations: Sequence[Derivation]
    ) -> Refusal | None:
        """Return the reason why a constant of the type cannot replace the output."""
        for derivation in derivations:
            if derivation.stands is None and not self.namer.takes_constant(graph_of(beside), derivation.constant.dtype):
                opset, dtype = self.namer.constant_opset(graph_of(beside)), type_name(derivation.constant.dtype)
                reason = f"it would have to be a Constant, which at opset {opset} does not support {dtype}"
                return Refusal(NAME, FOLD_CONSTANT.code, site_of(node), reason)
        stands, imports = [derivation.stands for derivation in derivations], self.reader.imports[graph_of(node)]
        lack = lacking_identity(node, stands, self.reader.inference, imports, self.target)
        return None if lack is None else Refusal(NAME, FOLD_CONSTANT.code, site_of(node), lack)

    def _over_budget(
        self, node: onnx_ir.Node, new: Sequence[Derivation], kept: Container[onnx_ir.Value], dropped: int
    ) -> Refusal | None:
        added = sum(derivation.constant.nbytes for derivation in new)
        left = max(0, self.max_total_growth - self.grown)
        growth = added - dropped
        if growth > min(self.max_growth, left):
            growth = added - bytes_of_dropped([node, *self._twins(node, new)], kept)
        reason = growth_reason(growth, self.max_growth, left)
        return Refusal(NAME, FOLD_GROWTH.code, site_of(node), reason) if reason else None

    def _twins(self, node: onnx_ir.Node, new: Sequence[Derivation]) -> list[onnx_ir.Node]:
        """Return the other nodes that the constant replaces as well: they too no longer need their operands."""
        users = new[0].reading[1][0].consumers()
        readings = self.reader.read(node)
        return [user for user in users if any(_used(user)) and self.reader.read(user) == readings]

    def _not_computed(self, node: onnx_ir.Node, new: Sequence[Derivation]) -> Refusal | None:
        tensors: list[onnx_ir.TensorProtocol] = []
        for derivation in new:
            try:
                tensor = self._computed(derivation)
            except (CastsmithError, FoldError) as error:
                return Refusal(NAME, FOLD_INVALID.code, site_of(node), str(error))
            if isinstance(tensor, Finding):
                where = f"element {list(tensor.index)} of {derivation.reading[1][0].name}"
                reason = f"{where} is {tensor.standing.name}: {tensor.reason}"
                return Refusal(NAME, FOLD_UNDEFINED.code, site_of(node), reason, tensor.value)
            tensors.append(tensor)
        for derivation, tensor in zip(new, tensors, strict=True):
            derivation.constant.tensor = tensor
        return None

    def _computed(self, derivation: Derivation) -> onnx_ir.TensorProtocol | Finding:
        """Return the constant, or the element that prevents folding."""
        conversion = derivation.reading[0]
        arrays = [self.constants.array(constant) for constant in derivation.operands]
        dtype, finding = derivation.constant.dtype, conversion.finding(arrays)
        if finding is None or finding.standing <= self.tolerated:
            return tensor_of(conversion, derivation.operands[0].tensor, arrays, dtype)
        if not self.fold_as or not isinstance(conversion, CastTo):
            return finding
        self.as_runtime.add(derivation.constant)
        return constant_of(conversion.compute_as(self.fold_as, arrays[0], self.tolerated), dtype)

    def _runtime_note(self, new: Container[Known]) -> str:
        if not any(constant in new for constant in self.as_runtime):
            return ""
        return f"; what the standard leaves open as {self.fold_as} computes it"

    def _within(self, node: onnx_ir.Node, home: onnx_ir.Graph | None) -> onnx_ir.Node:
        """Return the node of the graph `home` that is, or contains, the node; later users see nodes inserted there."""
        while node.graph is not home and (holder := self.holders.get(graph_of(node))) is not None:
            node = holder
        return node


def _used(node: onnx_ir.Node) -> list[bool]:
    return [use_count(output) > 0 or output.is_graph_output() for output in node.outputs]


def _is_there(value: onnx_ir.Value) -> bool:
    node = value.producer()
    return value.is_initializer() or (node is not None and node.graph is not None)


def _reason(derivations: Sequence[Derivation], new: Mapping[Known, Derivation]) -> str:
    computed = [derivation for derivation in derivations if derivation.constant is not derivation.operands[0]]
    if not computed:
        return f"the constant is {type_name(derivations[0].constant.dtype)} already"
    texts = [plan.reading[0].text([constant.dtype for constant in plan.operands]) for plan in computed]
    return "; ".join(texts) + ("" if new else "; the constant exists already")
