"""fold-shapes: Replace arithmetic on shapes that the declared shapes fix by constants.

Shape and Size, and what is computed from them and from small constants: Gather, Slice, Concat, Range, Cast, Where,
Expand, ConstantOfShape, reductions, and the arithmetic and comparisons of integers and bool. Dimensions without a
number are carried as symbols: `Gather (Shape (x), 1)` of `float[N, 4]` is 4, and a Reshape to `[7*N, 8]` one to
`[-1, 8]`.

Exact: elements are computed as numbers, and kept only where the type of the result holds them; arithmetic of floats is
followed where it rounds nothing. Refused: constants by which the file would grow beyond the limits of fold-constants,
and all arithmetic of a model in which the operands of a node do not fit, as far as inferred or declared shapes say.

    s = Shape (x)  # (float[N, 3, 4])
    c = Cast <to = int32> (s)
    d = Gather (c, {1, 2})
    p = ReduceProd (d)
becomes
    int32 p = {12}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import called_with_several_types
from castsmith.analysis.shapes.arithmetic import BY_ELEMENT
from castsmith.analysis.shapes.contents import COMPUTED, FOLLOWED
from castsmith.analysis.shapes.elements import Content
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.codes import RefusalCode, Rule
from castsmith.ir.constants import constant_tensor, drop_if_unused, growth_reason, new_constant, use_count
from castsmith.ir.naming import Namer
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators
from castsmith.ir.ops.traits import Moves
from castsmith.ir.records import Records, Refusal, RewriteResult
from castsmith.ir.text import site_of
from castsmith.ir.walks import graph_of, graphs_in
from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.symbols import Poly, Unknown
from castsmith.numerics.types import Kind, element_type, type_name
from castsmith.passes.core.options import shared
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement, apply_replacement, lacking_identity
from castsmith.passes.core.session import Session
from castsmith.passes.fold.rule import FOLD_GROWTH
from castsmith.passes.shapes.targets import REASONS, WITH_TARGETS, constant_target
from castsmith.targets.target import Target

NAME = "fold-shapes"

FOLD_SHAPE_ARITHMETIC = Rule(
    "fold-shape-arithmetic",
    "Arithmetic on shapes and small constants becomes constant. Skipped if that makes the file too large.",
    why="The declared shapes determine every element: Shape, Gather, Cast, arithmetic of integers and others.",
    example="- s = Shape (x)  # (float[N, 3, 4])\n- d = Gather (s, 1)\n+ int64 d = {3}",
    advice="--max-growth 0 keeps arithmetic that makes constants.",
    certified=True,
)
FIX_SHAPE_OPERAND = Rule(
    "fix-shape-operand",
    "The shape operand of a Reshape, Expand or Slice becomes a constant that gives the same result.",
    why="One dimension may be left open (-1), as may each that the input has at the same place (0, or 1 for Expand).",
    example="- y = Reshape (x, Concat (Gather (Shape (x), 0), {2, 4}))\n+ y = Reshape (x, {0, 2, 4})",
)
SHAPE_CONFLICT = RefusalCode(
    "shape-conflict",
    "Shape arithmetic is kept, because the declared shapes of a node's operands contradict each other.",
    why="A runtime that infers both shapes rejects the model. Either a shape is declared wrongly, or the node fails.",
    example="y = Concat <axis = 1> (a, b)  # (float[201, 4], float[200, 4])",
    advice="Correct the declared shape, or the model. castsmith optimize names the node and its operands.",
    fix="manual",
)


@dataclass(frozen=True)
class FoldShapes(SessionPass):
    """Fold arithmetic on shapes and small integers.

    Attributes:
        max_growth: As in FoldConstants.
        max_total_growth: As in FoldConstants.
        target: As in FoldConstants.
        largest_dim: As in NarrowTypes.
    """

    codes = (
        FOLD_SHAPE_ARITHMETIC,
        FIX_SHAPE_OPERAND,
        SHAPE_CONFLICT,
        FOLD_GROWTH,
    )

    max_growth: int = shared("max_growth")
    max_total_growth: int = shared("max_total_growth")
    largest_dim: int = shared("largest_dim")
    target: Target | None = None

    def rewrite(self, session: Session) -> RewriteResult:
        model, records = session.model, Records()
        if not computes_from_constants(session.nodes):
            return RewriteResult(model, False, records)
        inference = session.follow(PromotionRules(promote_unsafe=True))
        several = called_with_several_types(inference)
        nodes = [node for node in session.nodes if node.graph not in several]
        shapes = _inferred(Shapes(model, inference, self.largest_dim), nodes)
        _Folding(session, shapes, session.namer(), self, records).run(nodes)
        return RewriteResult(model, bool(records.rewrites), records)


def computes_from_constants(nodes: Iterable[onnx_ir.Node]) -> bool:
    """True if a node computes from shapes and constants alone: most models of activations have none, and are left."""
    fixed = set[onnx_ir.Value | None]()
    for node in nodes:
        if node.op_type not in FOLLOWED:
            continue
        operands = node.inputs if node.op_type in BY_ELEMENT else node.inputs[:1]
        if node.op_type in _OF_SHAPES or all(v in fixed or constant_tensor(v) is not None for v in operands):
            if node.op_type in COMPUTED:
                return True
            fixed.update(node.outputs)
    return False


_OF_SHAPES = operators(lambda row: row.moves is Moves.SHAPE)
"""Operators that read nothing of their operand but its shape."""


def _inferred(shapes: Shapes, nodes: Iterable[onnx_ir.Node]) -> Shapes:
    """Infer all shapes; without the declared shapes of intermediate values if one of them contradicts the nodes."""
    for node in nodes:
        if _is_followed(node):
            for output in node.outputs:
                shapes.shape(output)
    if shapes.contradicted and shapes.declared:
        return _inferred(shapes.restarted(declared=False), nodes)
    return shapes


_Content = tuple[object, DataType, tuple[int, ...], bytes]


@dataclass
class _Folding:
    """One run over a model."""

    session: Session
    shapes: Shapes
    namer: Namer
    limits: FoldShapes
    records: Records
    grown: int = 0
    conflicts: dict[onnx_ir.Node, str] | None = None
    constants: dict[_Content, onnx_ir.Value] = field(default_factory=dict[_Content, onnx_ir.Value])

    def run(self, nodes: Sequence[onnx_ir.Node]) -> None:
        """Fold the nodes that unfolded nodes read, and replace shape operands by constants."""
        read = [node for node in nodes if _is_followed(node) and any(map(use_count, node.outputs))]
        fixed = {node: tensors for node in nodes if (tensors := self._tensors(node)) is not None}
        readers = self._read_by_others(nodes, fixed)
        for node in sorted(readers, key=lambda node: node.op_type != "If"):
            if any(map(_is_used, node.outputs)):  # a folded If takes what it reads away
                self._fold(node, fixed[node])
        for node in nodes:
            if node.op_type in WITH_TARGETS and node.domain in DEFAULT_DOMAINS:
                self._give_target(node, nodes)
        _drop_unread(reversed(read))

    def _tensors(self, node: onnx_ir.Node) -> list[onnx_ir.TensorProtocol] | None:
        """Return the constants that a node gives, if every element is known."""
        if not _is_followed(node):
            return None
        tensors: list[onnx_ir.TensorProtocol] = []
        for output in node.outputs:
            content, dtype = self.shapes.content(output), self.shapes.inference.type_of(output)
            if content is None or dtype is None or any(isinstance(e, Poly | Unknown) for e in content.ravel().tolist()):
                return None
            tensors.append(_tensor(content, dtype))
        return tensors

    def _read_by_others(
        self, nodes: Sequence[onnx_ir.Node], fixed: Mapping[onnx_ir.Node, Sequence[onnx_ir.TensorProtocol]]
    ) -> list[onnx_ir.Node]:
        """Return the nodes to fold, in order.

        Their constants come from more than moves and casts, and a node that is not folded reads them. Users are visited
        before their operands.
        """
        moved, computed = set[onnx_ir.Node](), set[onnx_ir.Node]()
        for node in fixed:
            operands = (value for value in node.inputs if value is not None and constant_tensor(value) is None)
            of_constants = all(value.producer() in moved for value in operands)
            (computed if node.op_type in COMPUTED or not of_constants else moved).add(node)
        removed, outputs = set[onnx_ir.Node](), list[onnx_ir.Node]()
        for node in reversed(nodes):
            if node not in computed:
                continue
            used = [_is_used(output) for output in node.outputs]
            is_read = any(o.is_graph_output() or any(user not in removed for user, _ in o.uses()) for o in node.outputs)
            if not any(used):
                continue
            if not is_read:
                removed.add(node)
            elif self._takes(node, fixed[node]) and not self._conflicts(nodes):
                removed.add(node)
                outputs.append(node)
        return outputs[::-1]

    def _takes(self, node: onnx_ir.Node, tensors: Sequence[onnx_ir.TensorProtocol]) -> bool:
        """True if the constants may replace the node; otherwise a refusal gives the reason."""
        size, left = sum(tensor.nbytes for tensor in tensors), self.limits.max_total_growth - self.grown
        reason, rule = growth_reason(size, self.limits.max_growth, left), FOLD_GROWTH.code
        if not reason and not all(self.namer.takes_constant(graph_of(node), tensor.dtype) for tensor in tensors):
            opset, dtype = self.namer.constant_opset(graph_of(node)), type_name(tensors[0].dtype)
            reason = f"it would have to be a Constant, which at opset {opset} does not support {dtype}"
            rule = FOLD_SHAPE_ARITHMETIC.code
        elif not reason:
            reason, rule = self._lack(node, [None] * len(tensors)), FOLD_SHAPE_ARITHMETIC.code
        if reason:
            self.records.refusals.append(Refusal(NAME, rule, site_of(node), reason))
            return False
        self.grown += size
        return True

    def _conflicts(self, nodes: Sequence[onnx_ir.Node]) -> bool:
        """True if the operands of a node do not fit; asked first when something would change."""
        if self.conflicts is None:
            from castsmith.passes.shapes.conflicts import conflicts_of

            self.conflicts = conflicts_of(self.shapes, nodes)
            for conflicting, text in self.conflicts.items():
                reason = f"the shapes of its operands do not fit: {text}; the model's shape arithmetic is kept"
                self.records.refusals.append(Refusal(NAME, SHAPE_CONFLICT.code, site_of(conflicting), reason))
        return bool(self.conflicts)

    def _lack(self, node: onnx_ir.Node, values: Sequence[onnx_ir.Value | None]) -> str | None:
        imports = self.shapes.imports[graph_of(node)]
        return lacking_identity(node, values, self.shapes.inference, imports, self.limits.target)

    def _fold(self, node: onnx_ir.Node, tensors: Sequence[onnx_ir.TensorProtocol]) -> None:
        used = [_is_used(output) for output in node.outputs]
        values, new = list[onnx_ir.Value](), list[onnx_ir.Value]()
        for output, tensor, needed in zip(node.outputs, tensors, used, strict=True):
            name = f"{output.name}_value" if output.is_graph_output() else output.name or "folded"
            if needed:
                values.append(self._constant(node, name, tensor, new))
        first = values[0]
        rest = iter(values)
        outputs = tuple(next(rest) if needed else first for needed in used)
        reason = "it is computed only from known shapes and constants"
        self._replace(node, Replacement(FOLD_SHAPE_ARITHMETIC.code, reason, constants=tuple(new), outputs=outputs))
        _empty_graphs(node)

    def _give_target(self, node: onnx_ir.Node, nodes: Sequence[onnx_ir.Node]) -> None:
        """Give a Reshape, Expand or Slice a constant that is equivalent to its operand."""
        target = constant_target(node, self.shapes)
        if target is None or self._conflicts(nodes):
            return
        index, elements = target
        value = node.inputs[index]
        dtype = self.shapes.inference.type_of(value)
        value = present(value, "the value")
        if node.graph is None or dtype is None or not self.namer.takes_constant(node.graph, dtype):
            return
        new: list[onnx_ir.Value] = []
        top = np.iinfo(dtype.numpy()).max
        tensor = onnx_ir.Tensor(np.array([min(element, top) for element in elements], dtype.numpy()), dtype)
        constant = self._constant(node, f"{value.name}_fixed", tensor, new)
        nodes_made, inputs = tuple(new), {index: constant}
        self._replace(
            node, Replacement(FIX_SHAPE_OPERAND.code, REASONS[node.op_type], constants=nodes_made, inputs=inputs)
        )

    def _constant(
        self, node: onnx_ir.Node, name: str, tensor: onnx_ir.TensorProtocol, new: list[onnx_ir.Value]
    ) -> onnx_ir.Value:
        """Return a constant of the graph with exactly that content, or a new one; a node serves what follows alone."""
        assert node.graph is not None
        key = node.graph, tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes()
        constant = self.constants.get(key)
        if constant is None or not (constant.is_initializer() or constant in new):
            constant = self.constants[key] = new_constant(name, tensor)
            new.append(constant)
        return constant

    def _replace(self, node: onnx_ir.Node, replacement: Replacement) -> None:
        types = self.shapes.inference.types
        self.records.rewrites.append(apply_replacement(self.session, NAME, node, replacement, self.namer, types))


def _is_used(value: onnx_ir.Value) -> bool:
    return value.is_graph_output() or use_count(value) > 0


def _is_followed(node: onnx_ir.Node) -> bool:
    return (node.op_type in FOLLOWED or node.op_type == "If") and node.domain in DEFAULT_DOMAINS


def _drop_unread(nodes: Iterable[onnx_ir.Node]) -> None:
    """Remove unused shape arithmetic; users are visited before their operands."""
    for node in nodes:
        if node.graph is None or any(use_count(output) or output.is_graph_output() for output in node.outputs):
            continue
        operands = [operand for operand in node.inputs if operand is not None]
        node.graph.remove(node, safe=True)
        _empty_graphs(node)
        for operand in operands:
            drop_if_unused(operand)


def _empty_graphs(node: onnx_ir.Node) -> None:
    """Empty the subgraphs of a removed node, so that it reads no values."""
    for attribute in node.attributes.values():
        for graph in graphs_in(attribute):
            graph.outputs.clear()
            for inner in reversed(list(graph)):
                graph.remove(inner, safe=True)
                _empty_graphs(inner)


def _tensor(content: Content, dtype: DataType) -> onnx_ir.TensorProtocol:
    kind, wide = element_type(dtype).kind, np.uint64 if dtype == DataType.UINT64 else np.int64
    numbers = content.ravel().astype(np.float64 if kind is Kind.FLOATING else wide)
    return onnx_ir.Tensor(numbers.astype(dtype.numpy()).reshape(content.shape), dtype)
