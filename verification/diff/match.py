"""Matching of the nodes of two graphs: strongest evidence first, then weaker evidence for the rest.

First nodes that compute the same; then the same operator under the same name; then those in the same position beside
matched nodes, of one operator first. Ties are resolved by name, then by order.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir

from castsmith.verification.diff.keys import (
    Keys,
    Scope,
    computing_nodes,
    forward_keys,
    operands,
    operator_key,
)

Node = onnx_ir.Node
Value = onnx_ir.Value
Pairs = Sequence[tuple[Value, Value]]


@dataclass
class Matching:
    """The nodes of two scopes, the matched pairs, and the keys by which values are known in both.

    `forward` has, for the values of both, how each is computed; equal keys are the same computation.
    """

    keys: Keys
    sides: tuple[list[Node], list[Node]]
    partner: dict[Node, Node] = field(default_factory=dict[Node, Node])
    taken: set[Node] = field(default_factory=set[Node])
    forward: dict[Value, int] = field(default_factory=dict[Value, int])

    def left(self, side: int) -> list[Node]:
        """Return the unmatched nodes of one side."""
        done = self.taken if side else self.partner
        return [node for node in self.sides[side] if node not in done]

    def pair(self, a: Node, b: Node) -> None:
        self.partner[a] = b
        self.taken.add(b)
        for left, right in zip(a.outputs, b.outputs, strict=False):
            self.keys.of[left] = self.keys.of[right] = self.keys.intern("pair", left, right)

    def pair_by(self, key: Callable[[Node], Hashable | None]) -> None:
        """Pair nodes of equal key: those of the same names first, then in order."""
        for by_names in (True, False):
            waiting: dict[Hashable, list[Node]] = {}
            for node in reversed(self.left(0)):
                waiting.setdefault((key(node), _names(node) if by_names else ()), []).append(node)
            for node in self.left(1):
                content = key(node)
                candidates = None if content is None else waiting.get((content, _names(node) if by_names else ()))
                if candidates:
                    self.pair(candidates.pop(), node)


def match_nodes(a: Scope, b: Scope, keys: Keys, outputs: Pairs) -> Matching:
    """Match the nodes of two scopes; `keys` already knows their inputs and outer values.

    Args:
        outputs: The pairs of corresponding outputs.
    """
    matching, forward = Matching(keys, (computing_nodes(a), computing_nodes(b))), dict[Node, int]()
    for nodes in matching.sides:
        own: dict[Value, int] = {}
        forward |= forward_keys(nodes, keys, ChainMap(own, keys.of))
        matching.forward |= own
    matching.pair_by(lambda node: forward[node])
    if matching.left(0) and matching.left(1):
        matching.pair_by(lambda node: (operator_key(node), node.outputs[0].name) if node.outputs else None)
        matching.pair_by(lambda node: (operator_key(node), node.name) if node.name else None)
        for alike in (True, False):
            _pair_neighbours(matching, outputs, alike=alike)
    return matching


def _pair_neighbours(matching: Matching, outputs: Pairs, *, alike: bool) -> None:
    """Pair unmatched producers of inputs and consumers of outputs of matched nodes, by position.

    alike: Only those of one operator.
    """
    free = set(matching.left(0)), set(matching.left(1))
    waiting = list(matching.partner.items())
    pairs = [(x.producer(), y.producer()) for x, y in outputs]
    while all(free) and (pairs or waiting):
        for left, right in pairs:
            if left in free[0] and right in free[1] and not (alike and operator_key(left) != operator_key(right)):
                free[0].remove(left)
                free[1].remove(right)
                matching.pair(left, right)
                waiting.append((left, right))
        pairs = list(_neighbours(*waiting.pop(), *free)) if waiting else []


def _neighbours(a: Node, b: Node, free_a: set[Node], free_b: set[Node]) -> Iterator[tuple[Node | None, Node | None]]:
    for x, y in zip(operands(a), operands(b), strict=False):
        if x is not None and y is not None:
            yield x.producer(), y.producer()
    for x, y in zip(a.outputs, b.outputs, strict=False):
        yield from _same_uses(x, y, free_a, free_b)


def _same_uses(x: Value, y: Value, free_a: set[Node], free_b: set[Node]) -> Sequence[tuple[Node, Node]]:
    """Yield unmatched nodes of one operator that take x and y as the same operand."""
    places: dict[Hashable, list[Node]] = {}
    for node, index in x.uses():
        if node in free_a:
            places.setdefault((operator_key(node), index), []).append(node)
    pairs: list[tuple[Node, Node]] = []
    for node, index in y.uses() if places else ():
        candidates = places.get((operator_key(node), index))
        if node in free_b and candidates:
            pairs.append((candidates.pop(0), node))
    return pairs


def _names(node: Node) -> tuple[str | None, ...]:
    return (node.name, *(value.name for value in node.outputs))
