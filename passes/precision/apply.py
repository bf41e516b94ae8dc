"""Application of the choice: types, attributes, constants, and casts between different types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.constants import new_constant
from castsmith.ir.naming import Namer
from castsmith.ir.ops.casts import cast_node
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.ops.table import CASTS
from castsmith.ir.ops.value_types import naming, nested_type, set_element_type, with_element_type
from castsmith.ir.records import Effect, Item, NodeItem, Records, Rewrite, Site, ValueItem
from castsmith.ir.text import constant_item, node_item, node_items, site_of, value_item
from castsmith.numerics.errors import present
from castsmith.numerics.types import element_type, type_name
from castsmith.passes.core.rewriting import become_output, insert_behind, name_node, place_constant
from castsmith.passes.precision.constants import RoundingLoss, limits, rounded
from castsmith.passes.precision.operators import stash_attribute
from castsmith.passes.precision.ports import ANYTHING, KEPT, Use
from castsmith.passes.precision.problem import Problem
from castsmith.passes.precision.sensitivity import is_raised

CONVERT_REGION = Rule(
    "convert-region",
    "Connected nodes compute in the requested precision.",
    why="This is the purpose of a conversion: half the bytes, and faster matrix products.",
    example=(
        "- y = MatMul (x, w)  # (float[4,8], float[8,8]) -> float[4,8]\n"
        "+ y = MatMul (x, w)  # (float16[4,8], float16[8,8]) -> float16[4,8]"
    ),
    advice="Measure the error with --inputs FILE.npz or --measure. --keep PATTERN keeps nodes in float.",
    safety=(Effect.CONVERTED,),
    silence="Pass --keep PATTERN. Only castsmith convert does this.",
)
ROUND_CONSTANT = Rule(
    "round-constant",
    "A constant is rounded once to the precision. The record counts elements that overflow, vanish or lose bits.",
    why="The nodes that use it compute in the precision.",
    example="- float[2] w = {0.1, 1e-07}\n+ float16[2] w = {0.1, 1e-07}",
    advice="A constant that would lose too much is kept, and so are the nodes that use it.",
    safety=(Effect.CONVERTED,),
    silence="Pass --keep PATTERN. Only castsmith convert does this.",
)
MASK_CONSTANT = Rule(
    "mask-constant",
    "Mask values, such as minus infinity or -1e9, become the lowest number of the new type.",
    why="They would become minus infinity, and a fully masked row would become NaN.",
    example="- float low = {-3.4e+38}\n+ float16 low = {-65504}",
    advice="Check that the constant is a mask. If it is not, pass --keep with the node that uses it.",
    safety=(Effect.CONVERTED,),
    silence="Pass --keep PATTERN. Only castsmith convert does this.",
)
CAST_AT_BORDER = Rule(
    "cast-at-border",
    "A cast converts a value where float and the new type meet.",
    why="ONNX has no implicit conversions. A minimum cut keeps the casts few.",
    example="+ x_float16 = Cast <to = float16> (x)",
    advice=(
        "Pass --io convert to avoid casts at inputs and outputs, and --force PATTERN to avoid those around an operator."
    ),
    safety=(Effect.CONVERTED,),
    silence="Pass --keep PATTERN. Only castsmith convert does this.",
)
CONVERT_INTERFACE = Rule(
    "convert-interface",
    "An input or output of the model changes its type, because of --io.",
    why="Your code needs no casts if it already uses the new type.",
    example="- float[4,8] x\n+ float16[4,8] x",
    advice="Feed and read the new type.",
    safety=(Effect.INTERFACE,),
    silence="Leave out --io.",
)


@dataclass
class Change:
    """One conversion of a model in progress."""

    problem: Problem
    sides: Sequence[bool]
    namer: Namer
    name: str
    records: Records
    converted: dict[onnx_ir.Node, None] = field(default_factory=dict[onnx_ir.Node, None])
    """The converted nodes, in the order of the model, so that the records are the same in every run."""

    @property
    def to(self) -> DataType:
        return self.problem.aim.to

    def is_converted(self, value: onnx_ir.Value) -> bool:
        """True if the value is made in the precision."""
        return self.sides[self.problem.variables.get(value, KEPT)]

    def wants(self, use: Use) -> bool:
        """True if the use needs the value in the precision."""
        return use.wants != ANYTHING and self.sides[use.wants]

    def note(
        self,
        rule: Rule,
        site: Site,
        before: Item | Sequence[Item],
        after: Item | Sequence[Item],
        reason: str,
        effect: Effect = Effect.CONVERTED,
        saved_bytes: int | None = None,
    ) -> None:
        """Record a rewrite."""
        self.records.rewrites.append(Rewrite(self.name, rule.code, site, before, after, reason, effect, saved_bytes))


def apply(change: Change) -> None:
    """Change the model according to the sides of the variables, and record it."""
    problem = change.problem
    change.converted = {node: None for node, (variable, _) in problem.nodes.items() if change.sides[variable]}
    lowered_masks = _masks_that_are_cast(change)
    before = {node: (site_of(node), node_item(node, problem.inference.types)) for node in change.converted}
    _convert_constants(change, lowered_masks)
    _convert_types(change)
    for value in list(problem.uses):
        if value not in problem.facts.constants:
            _cast_where_wanted(change, value)
    for node in change.converted:
        _convert_attributes(change, node)
    _declare_ranks(change)
    _record_regions(change, before)


def _masks_that_are_cast(change: Change) -> set[onnx_ir.Value]:
    """Yield the unconverted constants with mask values whose uses are converted.

    They are lowered in their own type, or the cast would turn them into infinities.
    """
    problem, masks_to_lower = change.problem, set[onnx_ir.Value]()
    for value, uses in problem.uses.items():
        masks = () if value in problem.facts.constants else problem.facts.carry_of(value).masks
        if masks and not change.is_converted(value) and any(map(change.wants, uses)):
            masks_to_lower.update(masks)
    return masks_to_lower


# Constants.


def _convert_constants(change: Change, lowered: set[onnx_ir.Value]) -> None:
    problem = change.problem
    for value, tensor in problem.facts.constants.items():
        uses = problem.uses.get(value, [])
        wanting = [use for use in uses if change.wants(use)]
        keeping = [use for use in uses if use not in wanting and not _sees_no_elements(use)]
        kinds = dict.fromkeys(_kind(problem, use) for use in wanting)
        in_place = not keeping and len(kinds) == 1 and not value.is_graph_output()
        for kind in kinds:
            group = [use for use in wanting if _kind(problem, use) is kind]
            _round_constant(change, value, tensor, group, in_place=in_place, kind=kind)
        if value in lowered and keeping:
            before = constant_item(value)
            put_constant(value, _lowered(change, tensor))
            change.note(MASK_CONSTANT, site_of_constant(value), before, constant_item(value), _why_lowered(change))
    for value in lowered:
        node = value.producer()
        if node is not None and node.op_type == "ConstantOfShape" and node not in change.converted:
            before = node_item(node, problem.inference.types)
            tensor = node.attributes["value"].as_tensor()
            node.attributes["value"] = onnx_ir.AttrTensor("value", _lowered(change, tensor))
            change.note(MASK_CONSTANT, site_of(node), before, node_item(node), _why_lowered(change))


def _why_lowered(change: Change) -> str:
    return f"its results are cast to {type_name(change.to)}, in which the mask value would be infinity"


def _sees_no_elements(use: Use) -> bool:
    """True for a use that depends on the shape alone; a Cast depends on the elements before they are rounded."""
    return use.wants == ANYTHING and isinstance(use.place, onnx_ir.Node) and use.place.op_type not in CASTS


class _Kind(Enum):
    PLAIN = "a number that is computed with"
    BOUND = "a bound: one beyond all numbers has no effect, and becomes infinity"
    RAISED = "a number against a division by zero: it becomes the least number instead of zero"


def _kind(problem: Problem, use: Use) -> _Kind:
    if not isinstance(use.place, onnx_ir.Node):
        return _Kind.PLAIN
    if problem.facts.is_bound(use.place, use.index):
        return _Kind.BOUND
    return _Kind.RAISED if is_raised(use.place, use.value, problem.facts.loss(use.value)) else _Kind.PLAIN


def _round_constant(
    change: Change,
    value: onnx_ir.Value,
    tensor: onnx_ir.TensorProtocol,
    uses: Sequence[Use],
    *,
    in_place: bool,
    kind: _Kind,
) -> None:
    to, loss, before = (
        change.to,
        change.problem.facts.loss(value),
        constant_item(new_constant(value.name or "", tensor)),
    )
    # Of other numbers that are too large only the factors of masks are converted: `(mask - 1) * 1e9`.
    is_mask = (loss.is_mask or loss.overflow > 0) and kind is not _Kind.BOUND
    name = value.name or "" if in_place else change.namer.fresh(f"{value.name}_{type_name(to)}")
    if kind is _Kind.RAISED:
        tensor = onnx_ir.tensor(np.maximum(tensor.numpy(), np.asarray(_least(to), tensor.dtype.numpy())))
    new = _rounded(change, tensor, name, is_mask=is_mask)
    site = site_of_constant(value)
    if in_place:
        put_constant(value, new)
    else:
        constant = new_constant(name, new)
        _place_beside(change, value, constant)
        for use in uses:
            _rewire(use, constant)
    after = ValueItem(name, type_name(to), before.dims, role="constant")
    saved = tensor.nbytes - tensor.size * to.itemsize
    reason = loss_text(loss, to, is_mask=is_mask, kind=kind)
    change.note(_rule(is_mask=is_mask), site, before, after, reason, saved_bytes=int(saved) if saved > 0 else None)


def _rule(*, is_mask: bool) -> Rule:
    return MASK_CONSTANT if is_mask else ROUND_CONSTANT


def _rounded(change: Change, tensor: onnx_ir.TensorProtocol, name: str, *, is_mask: bool) -> onnx_ir.TensorProtocol:
    """Return the constant in the precision, with mask values at its ends."""
    opset = opset_of(change.problem.model.graph.opset_imports, "") or 0
    return rounded(tensor, change.to, opset, name, within=change.to if is_mask else None)


def _lowered(change: Change, tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    """Return the constant in its own type, with mask values at the ends of the precision."""
    return rounded(tensor, tensor.dtype, 13, tensor.name or "", within=change.to)


def _least(to: DataType) -> float:
    return 2.0 * limits(to).vanish


def loss_text(loss: RoundingLoss, to: DataType, *, is_mask: bool = False, kind: _Kind = _Kind.PLAIN) -> str:
    """Return the effects of rounding on the constant, as text."""
    name, effects, largest = type_name(to), list[str](), float(element_type(to).max)
    if is_mask and loss.masks:
        effects.append(f"{loss.masks} mask values become {-largest:g}, the lowest of {name}")
    elif is_mask:
        effects.append(f"{loss.overflow} factors of mask values become {largest:g} in size, the largest of {name}")
    elif kind is _Kind.BOUND and (loss.overflow or loss.masks):
        effects.append(f"{loss.overflow or loss.masks} bounds beyond {name} become infinity, which has the same effect")
    elif loss.overflow:
        effects.append(f"{loss.overflow} overflow")
    if loss.subnormal:
        effects.append(f"{loss.subnormal} become subnormal")
    if kind is _Kind.RAISED:
        effects.append(
            f"{loss.lost} would become zero, below a square root, and become {_least(to):.3g}, the least of {name}"
        )
    elif loss.lost:
        effects.append(f"{loss.lost} become zero")
    return f"rounded once to {name}" + (f"; of {loss.elements} elements {', '.join(effects)}" if effects else "")


def site_of_constant(value: onnx_ir.Value) -> Site:
    """Return the place of a constant."""
    graph = value.graph
    return Site(graph.name or "" if graph is not None else "", value.name or "", "Constant")


def put_constant(value: onnx_ir.Value, tensor: onnx_ir.TensorProtocol) -> None:
    """Replace the constant's tensor."""
    node = value.producer()
    if value.const_value is not None:
        value.const_value = tensor
    if node is not None:
        for name in list(node.attributes):
            del node.attributes[name]
        node.attributes["value"] = onnx_ir.AttrTensor("value", tensor)
    if value.type is not None:
        set_element_type(value, tensor.dtype)


def _place_beside(change: Change, value: onnx_ir.Value, new: onnx_ir.Value) -> None:
    graph = present(value.graph, "the graph of the constant")
    beside = next(iter(graph), None)
    if beside is None:
        graph.register_initializer(new)
    else:
        place_constant(new, beside, change.namer)


# Values and nodes.


def _convert_types(change: Change) -> None:
    """Declare values made in the precision; weights that are inputs in old IR versions are rounded."""
    problem, to = change.problem, change.to
    for value, variable in problem.variables.items():
        if not change.sides[variable]:
            continue
        before = value_item(value, "input")
        tensor = value.const_value
        if value.type is not None or value.is_graph_input() or value.is_graph_output():
            value.type = with_element_type(value.type or nested_type(problem.nestings.get(value, ()), to), to)
        if tensor is not None and value.is_graph_input():
            loss = problem.losses.of(tensor)
            value.const_value = _rounded(change, tensor, value.name or "", is_mask=loss.is_mask)
            reason, after = loss_text(loss, to, is_mask=loss.is_mask), value_item(value, "input")
            change.note(_rule(is_mask=loss.is_mask), site_of_constant(value), before, after, reason)
        if tensor is None and value.is_graph_input() and value.graph is problem.model.graph:
            _record_port(change, before, value_item(value, "input"), value)


def _record_port(change: Change, before: ValueItem, after: ValueItem, value: onnx_ir.Value) -> None:
    site = Site(change.problem.model.graph.name or "", value.name or "")
    reason = "the type of this input or output is changed on request"
    change.note(CONVERT_INTERFACE, site, before, after, reason, Effect.INTERFACE)


def _cast_where_wanted(change: Change, value: onnx_ir.Value) -> None:
    """Cast the value for users that need the other type: one cast for all of them."""
    problem = change.problem
    is_converted = change.is_converted(value)
    others = [use for use in problem.uses[value] if use.wants != ANYTHING and change.sides[use.wants] != is_converted]
    main = problem.model.graph
    as_outputs = [use for use in problem.uses[value] if use.place is main]
    if as_outputs and is_converted and not any(use in others for use in as_outputs):
        _record_port(change, _as_before(change, value), value_item(value, "output"), value)
    if not others:
        return
    source = present(problem.facts.source(value), "the operand")
    to = source if is_converted else change.to
    leaving = [use for use in others if use.place is main]
    users = list(dict.fromkeys(map(_who, others)))
    node = cast_node(value, to)
    name_node(node, change.namer)
    result = node.outputs[0]
    if leaving:
        become_output(
            main, value, result, change.namer, f"{value.name}_{type_name(change.to if is_converted else source)}"
        )
        if not is_converted:
            _record_port(change, _as_before(change, value), value_item(result, "output"), result)
    for use in others:
        _rewire(use, result)
    insert_behind(value, node)
    users_text = ", ".join(users[:3]) + (", ..." if len(users) > 3 else "")
    reason = f"{users_text} {'needs' if len(users) == 1 else 'need'} {type_name(to)}"
    change.note(CAST_AT_BORDER, site_of(node), (), node_item(node), reason)


def _as_before(change: Change, value: onnx_ir.Value) -> ValueItem:
    item, source = value_item(value, "output"), present(change.problem.facts.source(value), "the type of an output")
    return ValueItem(item.name, type_name(source), item.dims, role="output")


def _who(use: Use) -> str:
    if isinstance(use.place, onnx_ir.Node):
        return f"{use.place.name or use.place.op_type} ({use.place.op_type})"
    return f"output {use.value.name}"


def _rewire(use: Use, value: onnx_ir.Value) -> None:
    if isinstance(use.place, onnx_ir.Node):
        use.place.replace_input_with(use.index, value)
    else:
        use.place.outputs[use.index] = value


def _convert_attributes(change: Change, node: onnx_ir.Node) -> None:
    """Set the attributes by which the node names its types, and keep in float what the node can keep inside it."""
    problem = change.problem
    _, ports = problem.nodes[node]
    for name in ports.attributes:
        named = node.attributes.get(name)
        node.attributes[name] = onnx_ir.AttrInt64(name, int(change.to)) if named is None else naming(named, change.to)
    if node.op_type == "ConstantOfShape":
        _convert_filling(change, node)
    stash = stash_attribute(node, 0)
    if stash == "softmax_precision":  # of no opset in particular
        node.attributes[stash] = onnx_ir.AttrInt64(stash, int(DataType.FLOAT))


def _convert_filling(change: Change, node: onnx_ir.Node) -> None:
    attribute = node.attributes.get("value")
    tensor = onnx_ir.tensor(np.zeros(1, np.float32)) if attribute is None else attribute.as_tensor()
    loss = change.problem.losses.of(tensor)
    before, new = node_item(node), _rounded(change, tensor, tensor.name or "", is_mask=loss.is_mask)
    node.attributes["value"] = onnx_ir.AttrTensor("value", new)
    if loss.is_mask:  # one that loses anything else is not converted
        change.note(MASK_CONSTANT, site_of(node), before, node_item(node), loss_text(loss, change.to, is_mask=True))


def _declare_ranks(change: Change) -> None:
    """Declare the ranks of the operands of a MatMul behind a Transpose of batches, where they are known.

    ONNX Runtime 1.32 puts a Cast between them, as it has no MatMul of 16 bits, and ends the process when it fuses the
    three if a rank is unknown: `transpose-cast-matmul-crashes` in its data.
    """
    for node in change.converted:
        operands = [value for value in node.inputs if value is not None]
        if node.op_type == "MatMul" and any(perm and perm[0] for perm in map(_order_of, operands)):
            for value in operands:
                order, dims = _order_of(value), change.problem.sizes.dims(value)
                rank = len(order) or (None if dims is None else len(dims))
                if rank is not None and value.shape is None:
                    value.type = value.type or onnx_ir.TensorType(change.to)
                    value.shape = onnx_ir.Shape([None] * rank)


def _order_of(value: onnx_ir.Value) -> Sequence[int]:
    """Return the order of axes that the Transpose behind the value states; empty for other values."""
    node = value.producer()
    perm = node.attributes.get("perm") if node is not None and node.op_type == "Transpose" else None
    return () if perm is None or perm.is_ref() else perm.as_ints()


# Records.


def _record_regions(change: Change, before: Mapping[onnx_ir.Node, tuple[Site, NodeItem]]) -> None:
    """Add one record per region: connected converted nodes of one graph."""
    variables = change.problem.variables
    types = {
        **change.problem.inference.types,
        **{value: change.to for value in variables if change.is_converted(value)},
    }
    for nodes in regions(change.converted):
        reason = f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'} computed in {type_name(change.to)}"
        items = [before[node][1] for node in nodes]
        change.note(CONVERT_REGION, before[nodes[0]][0], items, node_items(nodes, types), reason)


def regions(nodes: Iterable[onnx_ir.Node]) -> list[list[onnx_ir.Node]]:
    """Return the connected regions of the nodes, graph by graph, each in order."""
    parent = {node: node for node in nodes}

    def root(node: onnx_ir.Node) -> onnx_ir.Node:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node in parent:
        for value in node.inputs:
            producer = None if value is None else value.producer()
            if producer is not None and producer in parent and producer.graph is node.graph:
                parent[root(producer)] = root(node)
    nodes_by_root: dict[onnx_ir.Node, list[onnx_ir.Node]] = defaultdict(list)
    graphs = dict.fromkeys(node.graph for node in parent)
    for graph in filter(None, graphs):
        for node in graph:
            if node in parent:
                nodes_by_root[root(node)].append(node)
    return list(nodes_by_root.values())
