"""Application of the choice for a region: moves get their types, and the planned casts replace the old ones."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir

from castsmith.ir.constants import constant_tensor, drop_if_unused, new_constant
from castsmith.ir.naming import Namer
from castsmith.ir.ops.casts import cast_node
from castsmith.ir.ops.value_types import set_element_type
from castsmith.ir.records import NodeItem
from castsmith.ir.text import Types, node_items
from castsmith.ir.walks import graph_of
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import become_output, place_constant, rewire
from castsmith.passes.place.chains import Chain, type_of
from castsmith.passes.place.choices import Choice, Mode, Plan
from castsmith.passes.place.problem import Problem, Root
from castsmith.passes.place.regions import Region


def needs_identity(problem: Problem, plans: Sequence[Plan]) -> bool:
    """True if an output of the graph would be a value with another name, which only an Identity could change."""
    for root, plan in zip(problem.roots, plans, strict=True):
        outputs = [
            (chain, demand.value)
            for demand, chain in zip(root.demands, plan.served, strict=True)
            if demand.user is None
        ]
        if len({chain for chain, _ in outputs}) < len(outputs):
            return True
        if any(chain == plan.source and value is not root.value and root.move is None for chain, value in outputs):
            return True
    return False


def apply(
    region: Region, problem: Problem, chosen: Sequence[Choice], plans: Sequence[Plan], namer: Namer, types: Types
) -> list[NodeItem]:
    """Change the graph; return the region's new nodes. types: as in `node_item`."""
    names = _release_names(region, namer)
    casts: list[onnx_ir.Node] = []
    for move, choice in zip(problem.moves, chosen, strict=True):
        if choice.mode is not Mode.KEEP:
            for output in move.node.outputs:
                set_element_type(output, choice.dtype)
    wiring: dict[onnx_ir.Node, dict[int, onnx_ir.Value]] = {}
    for root, plan in zip(problem.roots, plans, strict=True):
        casts += _serve(region, root, plan, problem, names, namer, wiring)
    for user, values in wiring.items():
        rewire(user, values)
    for node in reversed(list(region.casts)):
        graph_of(node).remove(node, safe=True)
    # Only after all demands are met: removing an unused move removes its operands, which may be in the region too.
    for root in problem.roots:
        drop_if_unused(root.value)
    return node_items((node for node in (*region.moves, *casts) if node.graph is not None), types)


def _release_names(region: Region, namer: Namer) -> dict[onnx_ir.Value, tuple[str | None, str | None]]:
    """Release the names of the region's casts for those that replace them."""
    names: dict[onnx_ir.Value, tuple[str | None, str | None]] = {}
    for node in region.casts:
        names[node.outputs[0]] = node.name, node.outputs[0].name
        namer.release(node.name)
        if not node.outputs[0].is_graph_output():
            namer.release(node.outputs[0].name)
    return names


def _serve(
    region: Region,
    root: Root,
    plan: Plan,
    problem: Problem,
    names: dict[onnx_ir.Value, tuple[str | None, str | None]],
    namer: Namer,
    wiring: dict[onnx_ir.Node, dict[int, onnx_ir.Value]],
) -> list[onnx_ir.Node]:
    """Make the casts of one root, and note in `wiring` which input gets which result."""
    casts: dict[Chain, onnx_ir.Value] = {plan.source: root.value}
    chain_names: dict[Chain, tuple[str | None, str | None]] = {}
    for demand, chain in zip(root.demands, plan.served, strict=True):
        # The name of an output is used for the value that becomes that output only.
        if demand.value in names and (demand.user is None or not demand.value.is_graph_output()):
            chain_names[chain] = (
                names[demand.value] if demand.user is None else chain_names.get(chain, names[demand.value])
            )
    users = [user for user, _ in root.value.uses() if user in region.nodes]
    first = None if root.move is not None else min(users, key=lambda user: region.nodes[user], default=None)
    nodes: list[onnx_ir.Node] = []
    for base, chain in plan.casts:
        if not root.price:
            casts[chain] = _cast_constant(casts[base], chain, problem, namer)
            continue
        step = problem.casting.step_to(type_of(chain))
        node = cast_node(casts[base], type_of(chain), saturate=step.saturate, round_mode=step.round_mode)
        wanted_node, wanted = chain_names.get(chain, (node.name, node.outputs[0].name))
        node.name = namer.fresh(wanted_node or node.name or "castsmith_Cast")
        node.outputs[0].name = namer.fresh(wanted or node.outputs[0].name or "castsmith_cast")
        if first is None:
            present(casts[base].producer(), "the node that makes the value").append(node)
        else:  # of the region's nodes that use a value from outside
            first.prepend(node)
        casts[chain] = node.outputs[0]
        nodes.append(node)
    for demand, chain in zip(root.demands, plan.served, strict=True):
        if demand.user is not None:
            wiring.setdefault(demand.user, {})[demand.index] = casts[chain]
        elif casts[chain] is not demand.value:
            old, dtype = demand.value, demand.value.dtype
            spare = f"{old.name}_{type_name(dtype)}" if dtype is not None else f"{old.name}_moved"
            become_output(present(old.graph, "the graph of the value"), old, casts[chain], namer, spare)
    return nodes


def _cast_constant(value: onnx_ir.Value, chain: Chain, problem: Problem, namer: Namer) -> onnx_ir.Value:
    """Cast a small constant immediately."""
    step, dtype, opset = problem.casting.step_to(type_of(chain)), type_of(chain), problem.casting.opset
    tensor = present(constant_tensor(value), "the tensor of the constant")
    array = cast(tensor.numpy(), dtype, saturate=step.saturate, round_mode=step.round_mode, opset=opset)
    name = namer.fresh(f"{value.name}_{type_name(dtype)}")
    constant = new_constant(name, onnx_ir.tensor(array, dtype=dtype, name=name))
    place_constant(constant, problem.moves[0].node, namer)
    return constant
