"""Element-type inference that works on a graph whose operands disagree.

One walk in the order of the graph. If the inputs that one type variable binds disagree, the promotion rules give
their common type, the disagreement is noted, and the walk continues as if the operands had been converted. The
notes are the conversions that make the model well-typed; the model is not changed.

Loop and Scan are walked until the types of their state no longer widen; they widen along a finite order, so this ends.
The body of a model-local function is walked once for each set of types with which it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import onnx
import onnx.helper
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.by_onnx import REFUSALS, outputs_by_onnx
from castsmith.analysis.inference.calls import Calls, Signature
from castsmith.analysis.inference.control_flow import infer_control_flow, walk_other_graphs
from castsmith.analysis.inference.disagreement import (
    Disagreement,
    cast_like,
    contradicted,
    promoted,
    rank_of,
    settle,
    with_legal_casts,
)
from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.casts import cast_target
from castsmith.ir.ops.promote_types import is_convert_promote_types, promotion_rules_of
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, OpKey, actual_outputs, groups_for, op_key, opset_of
from castsmith.ir.ops.table import operators
from castsmith.ir.ops.traits import Moves
from castsmith.ir.records import Flaw
from castsmith.ir.text import located, site_of
from castsmith.ir.validation import require_sound
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules

# The element types of a node's outputs, from its operator's schema and the types of its inputs.

_OF_THEIR_ELEMENTS = operators(lambda row: row.moves in (Moves.PACK, Moves.UNPACK))
"""Operators whose output has the element type of their first input, between tensors, sequences and optional values."""


def output_types(
    node: onnx_ir.Node, key: OpKey, inputs: Sequence[DataType | None], bound: Mapping[str, DataType]
) -> list[DataType | None]:
    """Return the element type of each output; None if it is unknown.

    Args:
        inputs: The element type of each actual input.
        bound: The types of the type variables of the inputs.
    """
    settled = types_by_schema(key, len(node.outputs), bound)
    if all(settled):
        return settled
    return [dtype or asked for dtype, asked in zip(settled, _by_attributes(node, inputs, key), strict=True)]


def types_by_schema(key: OpKey, count: int, bound: Mapping[str, DataType]) -> list[DataType | None]:
    """Return the element types of `count` outputs as far as the types of the inputs alone fix them."""
    return [only if name is None else bound.get(name, only) for name, only in _named_outputs(key, count)]


@cache
def _named_outputs(key: OpKey, count: int) -> tuple[tuple[str | None, DataType | None], ...]:
    """Return for each output its type variable, and its element type if the schema has only one."""
    pairs: list[tuple[str | None, DataType | None]] = []
    for formal in actual_outputs(key, count):
        only = next(iter(formal.allowed)) if formal is not None and len(formal.allowed) == 1 else None
        pairs.append((formal.variable if formal is not None and formal.homogeneous else None, only))
    return tuple(pairs)


def _by_attributes(node: onnx_ir.Node, inputs: Sequence[DataType | None], key: OpKey) -> list[DataType | None]:
    """Complete the types that attributes fix (Cast's `to`, RandomNormal's `dtype` ...) by onnx's own inference."""
    if node.op_type == "Constant":
        tensor, named = constant_tensor(node.outputs[0]), next(iter(node.attributes), "")
        return [_OF_CONSTANT.get(named) if tensor is None else tensor.dtype]
    if node.op_type == "Cast" and "to" in node.attributes and not node.attributes["to"].is_ref():
        return [cast_target(node)]
    if node.op_type in _OF_THEIR_ELEMENTS and node.domain in DEFAULT_DOMAINS and inputs:
        return [inputs[0]] * len(node.outputs)
    nothing: list[DataType | None] = [None] * len(node.outputs)
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return nothing
    return _ask_onnx(node, inputs, key) or nothing


_OF_CONSTANT = {
    **dict.fromkeys(("value_float", "value_floats"), DataType.FLOAT),
    **dict.fromkeys(("value_int", "value_ints"), DataType.INT64),
    **dict.fromkeys(("value_string", "value_strings"), DataType.STRING),
}
"""The types of Constants by attribute, also of those that are parameters of a function."""


def _ask_onnx(node: onnx_ir.Node, inputs: Sequence[DataType | None], key: OpKey) -> list[DataType | None] | None:
    types = [onnx.helper.make_tensor_type_proto(int(dtype or 0), None) for dtype in inputs]
    try:
        outputs = outputs_by_onnx(node, key[2], types)
    except REFUSALS:
        return None
    return [None if inferred is None else _element_type(inferred) for inferred in outputs]


def _element_type(proto: onnx.TypeProto) -> DataType | None:
    """Return the element type of a tensor, or of the tensors in a sequence or optional value."""
    while (kind := proto.WhichOneof("value")) in ("sequence_type", "optional_type"):
        proto = getattr(proto, kind).elem_type
    return _known(DataType(proto.tensor_type.elem_type))


_SIGNATURES = 64
"""Largest average number of signatures per function: a function with n inputs can have 2**n."""

OutputTypes = Callable[[onnx_ir.Node, Sequence[DataType | None], Mapping[str, int]], Sequence[DataType | None] | None]
"""Returns the types of a node's outputs, given the types of its inputs and the opset imports in force, or None."""


def called_with_several_types(inference: Inference) -> frozenset[onnx_ir.Graph | onnx_ir.Function]:
    """Return the bodies, with their subgraphs, of functions that are called with several types."""
    functions = [function for function, calls in inference.signatures.items() if len(calls) > 1]
    return frozenset(scope for function in functions for scope in (function.graph, *function.subgraphs()))


def declared_types(node: onnx_ir.Node, *_: object) -> Sequence[DataType | None]:
    """Return the types that the model declares for the outputs of the node."""
    return [_known(value.dtype) for value in node.outputs]


@dataclass
class Inference:
    """The result of a walk: the element type of every value, if known, and all required conversions.

    Attributes:
        custom: Returns the output types of operators of other domains; if None, those of the schema or declared ones.
    """

    rules: PromotionRules
    functions: Mapping[onnx_ir.OperatorIdentifier, onnx_ir.Function]
    custom: OutputTypes | None = None
    types: dict[onnx_ir.Value, DataType] = field(default_factory=dict[onnx_ir.Value, DataType])
    disagreements: dict[onnx_ir.Node, list[Disagreement]] = field(
        default_factory=dict[onnx_ir.Node, list[Disagreement]]
    )
    illegal: dict[onnx_ir.Node, list[Disagreement]] = field(default_factory=dict[onnx_ir.Node, list[Disagreement]])
    """Inputs that agree on a type that the operator does not support at this opset."""
    conversions: dict[tuple[onnx_ir.Node, int], DataType] = field(
        default_factory=dict[tuple[onnx_ir.Node, int], DataType]
    )
    """Inputs of Loop and Scan that become a wider state."""
    output_conversions: dict[tuple[onnx_ir.Graph, int], DataType] = field(
        default_factory=dict[tuple[onnx_ir.Graph, int], DataType]
    )
    """Outputs of the subgraphs of If, Loop and Scan that get a wider type."""
    ranks: dict[onnx_ir.Value, int | None] = field(default_factory=dict[onnx_ir.Value, int | None])
    """The ranks of the inputs of functions, if the rules depend on ranks."""
    calls: Calls = field(default_factory=Calls)

    @property
    def signatures(self) -> dict[onnx_ir.Function, set[Signature]]:
        """The input types with which each model-local function is called."""
        return {function: set(signatures) for function, signatures in self.calls.live().items()}

    @property
    def to_convert(self) -> bool:
        """True if any operand needs a conversion; otherwise the types are the same under all rules."""
        return bool(self.disagreements or self.illegal or self.conversions or self.output_conversions)

    def type_of(self, value: onnx_ir.Value | None) -> DataType | None:
        """Return the element type of the value; None if it is absent or unknown."""
        if value is None:
            return None
        dtype = self.types.get(value)
        if dtype is not None:
            return dtype
        return _known(value.const_value.dtype if value.const_value is not None else value.dtype)

    def walk(self, scope: Iterable[onnx_ir.Node], imports: Mapping[str, int]) -> None:
        """Infer every node of the scope, in order, including subgraphs."""
        for node in scope:
            self.disagreements.pop(node, None)
            self.illegal.pop(node, None)
            types = self._node(node, [self.type_of(value) for value in node.inputs], imports)
            for value, dtype in zip(node.outputs, types, strict=False):
                dtype = dtype or _known(value.dtype)
                if dtype is not None:
                    self.types[value] = dtype
                elif value in self.types:
                    del self.types[value]

    def _node(
        self, node: onnx_ir.Node, inputs: list[DataType | None], imports: Mapping[str, int]
    ) -> Sequence[DataType | None]:
        if is_convert_promote_types(node):
            return self._convert_promote_types(node, inputs)
        function = self.functions.get(node.op_identifier())
        if function is not None:
            return self._call(node, function, inputs)
        control_flow = infer_control_flow(self, node, imports)
        if control_flow is not None:
            return control_flow
        walk_other_graphs(self, node, imports)
        if self.custom is not None and node.domain not in DEFAULT_DOMAINS:
            results = self.custom(node, inputs, imports)
            if results is not None:
                return results
        key = op_key(node, imports)
        if key is None:
            return declared_types(node)
        bound: dict[str, DataType] = {}
        as_declared = self._pow_as_declared(node, inputs, opset_of(imports, "") or 0)
        if as_declared is not None:
            return [as_declared.common]
        restored: dict[int, DataType | None] = {}
        opset = opset_of(imports, "") or 0
        written_as_cast = cast_like(node, key, inputs) if key[1] == "CastLike" else None
        if written_as_cast is not None:
            self.illegal.setdefault(node, []).append(written_as_cast)
            return [written_as_cast.common]
        for group in groups_for(key, inputs, tuple(value is not None for value in node.inputs)):
            if node.op_type == "Pow" and group.indexes == (0,) and inputs[0] == inputs[1]:
                # If a base is widened, an exponent of its type is widened too: runtimes lack other kernels.
                group = replace(group, indexes=(0, 1)) if inputs[0] not in group.allowed else group
            results = settle(node, key, group, inputs, self.ranks, self.rules)
            first = next((dtype for index in group.indexes if (dtype := inputs[index]) is not None), None)
            if results is not None:
                results = with_legal_casts(results, opset)
                (self.disagreements if results.mixed else self.illegal).setdefault(node, []).append(results)
                # Undecided types are left to the model's declarations.
                first = results.common
                inputs = [first if first and index in results.indexes else dtype for index, dtype in enumerate(inputs)]
                restored.update(dict.fromkeys(results.restored, results.ruled))
            if first is not None:
                bound[group.variable] = first
        types = output_types(node, key, inputs, bound)
        wrong = contradicted(node, inputs) if node.domain in DEFAULT_DOMAINS else None
        if wrong is not None and node not in self.illegal:
            self.illegal[node] = [wrong]
        return [restored.get(index, dtype) for index, dtype in enumerate(types)] if restored else types

    def _pow_as_declared(
        self, node: onnx_ir.Node, inputs: Sequence[DataType | None], opset: int
    ) -> Disagreement | None:
        """Return the declared type of a Pow.

        By its schema it has the type of its base, but exporters mean the promoted type.
        """
        if node.op_type != "Pow":
            return None
        base, exponent, declared = inputs[0], inputs[1], _known(node.outputs[0].dtype)
        if base is None or exponent is None or declared is None or declared == base:
            return None
        mixed = Disagreement(node, (0, 1), (base, exponent), None, as_declared=True)
        if promoted(mixed, self.ranks, replace(self.rules, promote_unsafe=True)).common != declared:
            return None
        disagreement = with_legal_casts(promoted(mixed, self.ranks, self.rules), opset)
        self.disagreements.setdefault(node, []).append(disagreement)
        return disagreement

    def _convert_promote_types(
        self, node: onnx_ir.Node, inputs: Sequence[DataType | None]
    ) -> Sequence[DataType | None]:
        lhs, rhs = inputs
        if lhs is None or rhs is None:
            return [None, None]
        disagreement = promoted(Disagreement(node, (0, 1), (lhs, rhs), None), self.ranks, promotion_rules_of(node))
        if disagreement.error is not None:
            raise located(site_of(node), "operands", zip(node.inputs, (lhs, rhs), strict=True), disagreement.error)
        return [disagreement.common, disagreement.common]

    def _call(
        self, node: onnx_ir.Node, function: onnx_ir.Function, inputs: list[DataType | None]
    ) -> Sequence[DataType | None]:
        ranked = self.rules.pytorch_scalar_promotion
        operands = zip(node.inputs, inputs, strict=True)
        called = tuple((dtype, rank_of(value, self.ranks) if ranked else None) for value, dtype in operands)
        self.calls.called[self.calls.context, node] = (function, called)
        if (function, called) not in self.calls.results:
            self.enter(function, called)
        return self.calls.results[function, called]

    def enter(self, function: onnx_ir.Function, signature: Signature) -> None:
        """Walk the body of a function under one signature."""
        if len(self.calls.results) > _SIGNATURES * (len(self.functions) + 16):
            name = f"{function.domain}::{function.name}"
            raise ModelError(
                f"function {name} and others are called with more than {len(self.calls.results)} combinations of types,"
                " which is not supported; inline some of the functions, or cast before the calls."
            )
        outer, self.calls.context = self.calls.context, (function, signature)
        self.calls.last[function] = signature
        for value, (dtype, rank) in zip(function.inputs, signature, strict=False):
            self.ranks[value] = rank
            if dtype is None:
                self.types.pop(value, None)
            else:
                self.types[value] = dtype
        self.walk(function, function.opset_imports)
        self.calls.results[function, signature] = [self.type_of(value) for value in function.outputs]
        if self._to_convert(function):
            self.calls.repaired.add((function, signature))
        self.calls.context = outer

    def _to_convert(self, function: onnx_ir.Function) -> bool:
        states = {node for node, _ in self.conversions}
        leaving = {graph for graph, _ in self.output_conversions}
        return any(graph in leaving for graph in function.subgraphs()) or any(
            node in self.disagreements or node in self.illegal or node in states for node in function.all_nodes()
        )


def infer_element_types(model: onnx_ir.Model, rules: PromotionRules, custom: OutputTypes | None = None) -> Inference:
    """Infer the element types of the whole model under `rules` for operands that disagree. Changes nothing.

    Args:
        custom: As in Inference.
    """
    inference = Inference(rules, model.functions, custom)
    inference.walk(model.graph, model.graph.opset_imports)
    for function, signatures in inference.calls.live().items():
        (*_, signature) = signatures
        if len(signatures) == 1 and inference.calls.last[function] != signature:
            inference.enter(function, signature)
    return inference


def known_types(model: onnx_ir.Model) -> dict[onnx_ir.Value, DataType]:
    """Return the element types of the model's values, to show nodes with; empty if they cannot be inferred.

    They are not of a malformed model, whose nodes may lack operands.
    """
    flaws = list[Flaw]()
    require_sound(model, "", sort=False, flaws=flaws)
    if flaws:
        return {}
    try:
        return infer_element_types(model, PromotionRules(promote_unsafe=True)).types
    except PromotionError:
        return {}


def _known(dtype: DataType | None) -> DataType | None:
    return None if dtype is None or dtype == DataType.UNDEFINED else dtype
