"""Element-type inference that works on a graph whose operands disagree.

One walk in the order of the graph. Where the inputs that one type variable binds disagree, the promotion rules give
their common type, the disagreement is noted, and the walk goes on as if the operands had been converted. What is
noted is all that has to be converted to make the model well-typed; nothing is changed here.

Loop and Scan are walked until the types of their state no longer widen; they widen along a finite order, so this ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.control_flow import infer_control_flow
from castsmith.ir.outputs import output_types
from castsmith.ir.promote_node import is_convert_promote_types, promotion_rules_of
from castsmith.ir.schemas import allowed_types, node_signature, shared_type_groups
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion import PromotionRules, common_type
from castsmith.numerics.types import ELEMENT_TYPES, type_name


@dataclass(frozen=True)
class Disagreement:
    """Inputs `indexes` of `node` must share a type, have `types`, and get `common`.

    common is None where `error` says why there is none, or where an unknown rank leaves it undecided.
    ruled: what the promotion rule gives, where the operator does not take it and `common` is a wider type.
    as_declared: the operator may mix them, but the model declares its result to be of the promoted type.
    """

    node: onnx_ir.Node
    indexes: tuple[int, ...]
    types: tuple[DataType, ...]
    common: DataType | None
    error: PromotionError | None = None
    as_declared: bool = False
    ruled: DataType | None = None


@dataclass
class Inference:
    """What a walk finds: the element type of every tensor value it can type, and all that has to be converted."""

    rules: PromotionRules
    functions: Mapping[onnx_ir.OperatorIdentifier, onnx_ir.Function]
    types: dict[onnx_ir.Value, DataType] = field(default_factory=dict[onnx_ir.Value, DataType])
    disagreements: dict[onnx_ir.Node, list[Disagreement]] = field(
        default_factory=dict[onnx_ir.Node, list[Disagreement]]
    )
    conversions: dict[tuple[onnx_ir.Node, int], DataType] = field(
        default_factory=dict[tuple[onnx_ir.Node, int], DataType]
    )
    """Inputs of Loop and Scan that enter as a wider state."""
    output_conversions: dict[tuple[onnx_ir.Graph, int], DataType] = field(
        default_factory=dict[tuple[onnx_ir.Graph, int], DataType]
    )
    """Outputs of the subgraphs of If, Loop and Scan that leave as a wider type."""
    signatures: dict[onnx_ir.Function, set[tuple[DataType | None, ...]]] = field(
        default_factory=dict[onnx_ir.Function, set[tuple[DataType | None, ...]]]
    )
    """The input types with which each model-local function is called."""

    def type_of(self, value: onnx_ir.Value | None) -> DataType | None:
        """The element type of the value; None where it is absent, not a tensor, or unknown."""
        if value is None:
            return None
        if value in self.types:
            return self.types[value]
        return _known(value.const_value.dtype if value.const_value is not None else value.dtype)

    def walk(self, scope: onnx_ir.Graph | onnx_ir.Function, imports: Mapping[str, int]) -> None:
        """Infer every node of the scope, in order, subgraphs included."""
        for node in scope:
            types = self._node(node, imports)
            for value, dtype in zip(node.outputs, types, strict=True):
                dtype = dtype or _known(value.dtype)
                if dtype is None:
                    self.types.pop(value, None)
                else:
                    self.types[value] = dtype

    def merge(self, types: Sequence[DataType | None]) -> DataType | None:
        """The common type of values that meet where control flow joins; None unless all are known and have one."""
        known = [dtype for dtype in types if dtype is not None]
        if len(known) < len(types) or not known:
            return None
        return known[0] if len(set(known)) == 1 else common_type([(dtype, 1) for dtype in known], self.rules)

    def _node(self, node: onnx_ir.Node, imports: Mapping[str, int]) -> Sequence[DataType | None]:
        self.disagreements.pop(node, None)
        inputs = [self.type_of(value) for value in node.inputs]
        function = self.functions.get(node.op_identifier())
        if function is not None:
            return self._call(function, inputs)
        if is_convert_promote_types(node):
            return self._convert_promote_types(node, inputs)
        control_flow = infer_control_flow(self, node, imports)
        if control_flow is not None:
            return control_flow
        signature = node_signature(node, imports)
        if signature is None:
            return [_known(value.dtype) for value in node.outputs]
        bound: dict[str, DataType] = {}
        for variable, indexes in shared_type_groups(node, signature).items():
            common = self._settle(node, indexes, inputs, allowed_types(signature, variable))
            if common is not None:
                bound[variable] = common
        if node.op_type == "Pow":
            self._pow_as_declared(node, inputs)
        types = output_types(node, signature, inputs, bound, imports)
        return types if node not in self.disagreements or node.op_type != "Pow" else [_known(node.outputs[0].dtype)]

    def _settle(
        self,
        node: onnx_ir.Node,
        indexes: Sequence[int],
        inputs: Sequence[DataType | None],
        allowed: frozenset[DataType],
    ) -> DataType | None:
        """The type of the inputs `indexes`, noting a disagreement; None where nothing is known of them."""
        known = [(index, dtype) for index in indexes if (dtype := inputs[index]) is not None]
        if len({dtype for _, dtype in known}) < 2:
            return known[0][1] if known else None
        common, error = self._common([(dtype, _rank(node.inputs[index])) for index, dtype in known])
        ruled = common
        if ruled is not None and ruled not in allowed:
            common, error = _wider(node, ruled, allowed)
        types = tuple(dtype for _, dtype in known)
        indexes = tuple(index for index, _ in known)
        self._note(Disagreement(node, indexes, types, common, error, ruled=None if ruled == common else ruled))
        return common or types[0]

    def _note(self, disagreement: Disagreement) -> None:
        self.disagreements.setdefault(disagreement.node, []).append(disagreement)

    def _pow_as_declared(self, node: onnx_ir.Node, inputs: Sequence[DataType | None]) -> None:
        """Pow gives the type of its base, but exporters mean the promoted type: they declare the result to have it."""
        base, exponent, declared = inputs[0], inputs[1], node.outputs[0].dtype
        if base is None or exponent is None or declared is None or declared == base:
            return
        operands = [(base, _rank(node.inputs[0])), (exponent, _rank(node.inputs[1]))]
        if common_type(operands, replace(self.rules, promote_unsafe=True)) != declared:
            return
        common, error = self._common(operands)
        self._note(Disagreement(node, (0, 1), (base, exponent), common, error, as_declared=True))

    def _common(self, operands: Sequence[tuple[DataType, int | None]]) -> tuple[DataType | None, PromotionError | None]:
        try:
            return common_type(operands, self.rules), None
        except PromotionError as refusal:
            return None, refusal

    def _convert_promote_types(
        self, node: onnx_ir.Node, inputs: Sequence[DataType | None]
    ) -> Sequence[DataType | None]:
        lhs, rhs = inputs
        if lhs is None or rhs is None:
            return [None, None]
        rules = promotion_rules_of(node)
        common = common_type([(lhs, _rank(node.inputs[0])), (rhs, _rank(node.inputs[1]))], rules)
        return [common, common]

    def _call(self, function: onnx_ir.Function, inputs: list[DataType | None]) -> Sequence[DataType | None]:
        signature = tuple(inputs)
        self.signatures.setdefault(function, set()).add(signature)
        for value, dtype in zip(function.inputs, signature, strict=False):
            if dtype is not None:
                self.types[value] = dtype
        self.walk(function, function.opset_imports)
        return [self.type_of(value) for value in function.outputs]


def infer_element_types(model: onnx_ir.Model, rules: PromotionRules) -> Inference:
    """Infer the element types of the whole model under `rules` for operands that disagree. Changes nothing."""
    inference = Inference(rules, model.functions)
    inference.walk(model.graph, model.graph.opset_imports)
    return inference


def _known(dtype: DataType | None) -> DataType | None:
    return None if dtype is None or dtype == DataType.UNDEFINED else dtype


def _rank(value: onnx_ir.Value | None) -> int | None:
    if value is None:
        return None
    tensor = constant_tensor(value)
    if tensor is not None:
        return tensor.shape.rank()
    return None if value.shape is None else value.shape.rank()


def _wider(
    node: onnx_ir.Node, ruled: DataType, allowed: frozenset[DataType]
) -> tuple[DataType | None, PromotionError | None]:
    """The narrowest type that the operator takes and that holds every value of `ruled`, which it does not take."""
    wider = next((dtype for dtype in ELEMENT_TYPES if dtype in allowed and embeds(ruled, dtype)), None)
    if wider is not None:
        return wider, None
    name = type_name(ruled)
    return None, PromotionError(f"{node.op_type} takes neither {name}, their common type, nor one that holds it.")
