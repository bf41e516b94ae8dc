"""Values that are sequences or optional values, declared or not: `TypeProto`s are nested, element types are not.

A sequence of float16 is declared `seq(tensor(float16))`. The inference of element types says float16 alone, so what
declares a value asks here how its tensors are held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir
from onnx_ir import OptionalType, SequenceType

from castsmith.analysis.inference.handed_on import handed_on
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import Moves
from castsmith.ir.ops.value_types import Nesting, nesting_of
from castsmith.ir.walks import all_nodes, all_values

_Link = tuple[onnx_ir.Value | None, onnx_ir.Value, int]
"""A value, one that follows from it, and by how many optional types that one has more."""


def nestings(model: onnx_ir.Model) -> dict[onnx_ir.Value, Nesting]:
    """Return how each value holds its tensors, for those that are sequences or optional values, undeclared ones too."""
    nestings_found = {value: nesting for value in all_values(model) if (nesting := nesting_of(value.type))}
    links: dict[onnx_ir.Value, list[tuple[onnx_ir.Value, int]]] = defaultdict(list)
    for node in all_nodes(model):
        if _makes_sequences(node):
            nestings_found.update(dict.fromkeys(node.outputs, (SequenceType,)))
        for source, result, more in _links(model, node):
            if source is not None:
                links[source].append((result, more))
                if more >= 0:  # OptionalGetElement takes what is not optional too
                    links[result].append((source, -more))
    _follow(links, nestings_found, list(nestings_found))
    for node in all_nodes(model):
        optional = node.outputs[0] if node.op_type == "Optional" and node.domain in DEFAULT_DOMAINS else None
        if optional is not None and optional not in nestings_found:  # of a tensor
            nestings_found[optional] = (OptionalType,)
            _follow(links, nestings_found, [optional])
    return nestings_found


def _follow(
    links: Mapping[onnx_ir.Value, Sequence[tuple[onnx_ir.Value, int]]],
    nestings_found: dict[onnx_ir.Value, Nesting],
    waiting: list[onnx_ir.Value],
) -> None:
    """Add what follows from the values that wait."""
    while waiting:
        value = waiting.pop()
        for other, more in links.get(value, ()):
            nesting = _changed(nestings_found[value], more)
            if nesting and other not in nestings_found:
                nestings_found[other] = nesting
                waiting.append(other)


def _changed(nesting: Nesting, more: int) -> Nesting:
    if more > 0:
        return (OptionalType, *nesting)
    return nesting[1:] if more < 0 and nesting[0] is OptionalType else nesting


def _makes_sequences(node: onnx_ir.Node) -> bool:
    if node.domain not in DEFAULT_DOMAINS:
        return False
    packs = traits_of(node.domain, node.op_type).moves is Moves.PACK and node.op_type != "Optional"
    return packs or node.op_type == "SequenceMap"


def _links(model: onnx_ir.Model, node: onnx_ir.Node) -> Iterator[_Link]:
    standard = node.domain in DEFAULT_DOMAINS and node.op_identifier() not in model.functions
    if standard and node.op_type in ("Identity", "Optional", "OptionalGetElement") and node.inputs:
        yield node.inputs[0], node.outputs[0], {"Identity": 0, "Optional": 1}.get(node.op_type, -1)
    elif not (standard and node.op_type == "SequenceMap"):  # its subgraph gets the elements of its sequences
        yield from ((source, result, 0) for source, result in handed_on(model, node))
