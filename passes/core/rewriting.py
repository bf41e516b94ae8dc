"""Application of rules: a rule looks at one node and returns a Replacement, a Refusal or None.

A pass lists its rules, and `first_of` offers each node to those about its operator.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, TypeVar

import onnx_ir

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import Rule
from castsmith.ir.constants import constant_nodes, drop_if_unused
from castsmith.ir.naming import Namer
from castsmith.ir.records import Effect, Records, Refusal, Rewrite, RewriteResult
from castsmith.ir.text import Types, constant_item, node_item, site_of
from castsmith.ir.walks import graph_of
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.core.session import Session
from castsmith.targets.kernels import takes_identity
from castsmith.targets.target import Target


@dataclass(frozen=True)
class Replacement:
    """The replacement of a node by a rule.

    Attributes:
        rule: The stable code of the rule.
        reason: The reason, one sentence.
        nodes: New nodes, in order, to be inserted before the node.
        constants: New values from `new_constant` that the new nodes, inputs or outputs use.
        inputs: Inputs of the node to rewire, by index; the node stays.
        outputs: The values that replace the node's outputs; the node is removed. None: it stays.
        effect: The effect on values.
        beside: The node beside which the constants are placed, if not the node itself but one that holds it in a
            subgraph.
        saved_bytes: As in Rewrite.
    """

    rule: str
    reason: str
    nodes: tuple[onnx_ir.Node, ...] = ()
    constants: tuple[onnx_ir.Value, ...] = ()
    inputs: Mapping[int, onnx_ir.Value] = field(default_factory=dict[int, onnx_ir.Value])
    outputs: tuple[onnx_ir.Value, ...] | None = None
    effect: Effect = Effect.BIT_EXACT
    beside: onnx_ir.Node | None = None
    saved_bytes: int | None = None


Facts = TypeVar("Facts")
Match = Callable[[onnx_ir.Node], Replacement | Refusal | None]


@dataclass(frozen=True)
class NodeRule(Rule, Generic[Facts]):
    """A rule about one node at a time.

    Attributes:
        operators: The operators of the nodes, of any domain; None for all.
        apply: Returns the replacement of a node by facts about the model, or the reason not to replace it; None if the
            rule does not apply.
    """

    _: KW_ONLY
    operators: frozenset[str] | None
    apply: Callable[[onnx_ir.Node, Facts], Replacement | Refusal | None]


def first_of(rules: Sequence[NodeRule[Facts]], facts: Facts) -> Match:
    """Return the function that offers a node to the rules about its operator, in order, until one answers."""
    operators = {operator for rule in rules for operator in rule.operators or ()}
    about = {
        operator: [rule.apply for rule in rules if rule.operators is None or operator in rule.operators]
        for operator in operators
    }
    others = [rule.apply for rule in rules if rule.operators is None]

    def match(node: onnx_ir.Node) -> Replacement | Refusal | None:
        for apply in about.get(node.op_type, others):
            outcome = apply(node, facts)
            if outcome is not None:
                return outcome
        return None

    return match


def replace_nodes(session: Session, pass_name: str, match: Match, *, types: Types) -> RewriteResult:
    """Replace every node for which `match` has a replacement, in the order of the graph, and record the refusals.

    Nodes that a replacement adds are not offered, and nodes that are removed meanwhile are left out.

    Args:
        types: As in `apply_replacement`.
    """
    records, namer = Records(), session.namer()
    for node in session.nodes:
        if node.graph is None:
            continue
        outcome = match(node)
        if isinstance(outcome, Replacement):
            records.rewrites.append(apply_replacement(session, pass_name, node, outcome, namer, types))
        elif outcome is not None:
            records.refusals.append(outcome)
    return RewriteResult(session.model, bool(records.rewrites), records)


def apply_replacement(
    session: Session,
    pass_name: str,
    node: onnx_ir.Node,
    replacement: Replacement,
    namer: Namer,
    types: Types,
) -> Rewrite:
    """Change the graph as `replacement` says, note that in the session, and record it. Graph outputs keep their names.

    Args:
        types: The types with which the record shows values that declare none.
    """
    site, before = site_of(node), node_item(node, types)
    old_inputs = [value for value in node.inputs if value is not None]
    if replacement.outputs is not None:
        for name in (node.name, *(output.name for output in node.outputs if not output.is_graph_output())):
            namer.release(name)
    beside = replacement.beside or node
    for constant in replacement.constants:
        constant.name = namer.fresh(constant.name or "castsmith_constant")
        place_constant(constant, beside, namer)
    for new_node in replacement.nodes:
        name_node(new_node, namer)
        node.prepend(new_node)
    rewire(node, replacement.inputs)
    nodes = list(replacement.nodes)
    if replacement.outputs is not None:
        nodes += _replace_outputs(node, replacement.outputs, namer)
    # Now that all of them have their final names.
    after = [*map(constant_item, replacement.constants), *(node_item(new, types) for new in nodes)]
    if replacement.outputs is None:
        after.append(node_item(node, types))
    session.rewritten(node, nodes, replacement.outputs)
    for value in old_inputs:
        drop_if_unused(value)
    reason, effect, saved_bytes = replacement.reason, replacement.effect, replacement.saved_bytes
    return Rewrite(pass_name, replacement.rule, site, before, after, reason, effect, saved_bytes)


def detach(nodes: Iterable[onnx_ir.Node]) -> None:
    """Take the inputs from nodes that are not used after all, so that they no longer count as uses of values."""
    for node in nodes:
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)


def rewire(node: onnx_ir.Node, values: Mapping[int, onnx_ir.Value]) -> None:
    """Replace inputs of a node."""
    for index, value in values.items():
        node.replace_input_with(index, value)


def place_constant(constant: onnx_ir.Value, node: onnx_ir.Node, namer: Namer) -> None:
    """Make the constant an initializer of the node's graph, or a Constant before the node if the graph takes none.

    A Cast follows the Constant if Constant does not give the type.
    """
    if namer.takes_initializers(graph_of(node)):
        graph_of(node).register_initializer(constant)
        return
    for new in constant_nodes(constant, namer.constant_opset(graph_of(node))):
        new.name = new.name or namer.fresh(f"castsmith_{new.op_type}")
        for output in new.outputs:
            if output is not constant:
                output.name = new.name = namer.fresh(present(output.name, "the name of the constant"))
        node.prepend(new)


def insert_behind(value: onnx_ir.Value, node: onnx_ir.Node) -> None:
    """Insert a node behind the one that makes the value, or at the start of the graph that has the value."""
    producer, graph = value.producer(), present(value.graph, "the graph of the value")
    first = next(iter(graph), None)
    if producer is not None:
        producer.append(node)
    elif first is not None:
        first.prepend(node)
    else:
        graph.append(node)


def name_node(node: onnx_ir.Node, namer: Namer) -> None:
    """Give a new node and its results names that are free."""
    node.name = namer.fresh(node.name or f"castsmith_{node.op_type}")
    for output in node.outputs:
        output.name = namer.fresh(output.name or f"{node.name}_output")


def _replace_outputs(node: onnx_ir.Node, values: tuple[onnx_ir.Value, ...], namer: Namer) -> list[onnx_ir.Node]:
    """Replace the outputs of `node` by `values` and remove it; return the nodes that this adds."""
    nodes: list[onnx_ir.Node] = []
    for old, new in zip(node.outputs, values, strict=True):
        if old.is_graph_output():
            nodes += _hand_over_graph_output(old, new, node, namer)
        else:
            old.replace_all_uses_with(new)
    graph_of(node).remove(node, safe=True)
    return nodes


def _hand_over_graph_output(
    old: onnx_ir.Value, new: onnx_ir.Value, node: onnx_ir.Node, namer: Namer
) -> list[onnx_ir.Node]:
    """Keep the name of a graph output.

    Only a value that a node of the same graph makes, and that is not another output, can take over the name; for all
    others an Identity is inserted.
    """
    name, nodes = old.name, list[onnx_ir.Node]()
    if not can_be_renamed(new, node):
        identity = onnx_ir.node("Identity", [new], name=namer.fresh(f"castsmith_output_{name}"))
        identity.outputs[0].type = new.type
        node.prepend(identity)
        new = identity.outputs[0]
        nodes.append(identity)
    else:
        namer.release(new.name)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    new.name = name
    take_declaration(old, new)
    return nodes


def can_be_renamed(value: onnx_ir.Value, node: onnx_ir.Node) -> bool:
    """True if the value can take over the name of an output of the node."""
    producer = value.producer()
    return producer is not None and producer.graph is node.graph and not value.is_graph_output()


def become_output(
    graph: onnx_ir.Graph | onnx_ir.Function, old: onnx_ir.Value, new: onnx_ir.Value, namer: Namer, spare: str
) -> None:
    """Make `new` the outputs of the graph that `old` was, under its name; `old` gets a fresh name like `spare`."""
    for index, output in enumerate(graph.outputs):
        if output is old:
            graph.outputs[index] = new
    if new.name != old.name:
        name = old.name
        namer.release(new.name)
        old.name, new.name = namer.fresh(spare), name
    take_declaration(old, new)


def take_declaration(old: onnx_ir.Value, new: onnx_ir.Value) -> None:
    """Make a value that becomes a graph output declare the shape of the output, if any.

    Anything known beyond that shape does not belong to the interface of the model. A rewrite to another type declares
    it.
    """
    new.type, new.shape = new.type or old.type, old.shape


def lacking_identity(
    node: onnx_ir.Node,
    values: Sequence[onnx_ir.Value | None],
    inference: Inference,
    imports: Mapping[str, int],
    target: Target | None,
    added: Container[onnx_ir.Node] = (),
) -> str | None:
    """Return the reason why the values cannot replace the outputs of the node, or None.

    The reason is an output that only an Identity could name, which the schema or the target lacks for the type.

    Args:
        values: The replacements; None for a new constant.
        added: Nodes that will be in the graph of the node.
    """
    for old, new in zip(node.outputs, values, strict=False):
        if not old.is_graph_output():
            continue
        dtype = inference.type_of(old)
        producer = None if new is None else new.producer()
        renamed = new is not None and producer is not None and (producer in added or can_be_renamed(new, node))
        if dtype is not None and not renamed and not takes_identity(dtype, imports, target):
            lacks = f"an Identity of {type_name(dtype)}, for which the target has no kernel"
            return f"the output {old.name} would need {lacks}"
    return None
