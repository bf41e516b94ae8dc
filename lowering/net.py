"""The net change of a run: the rewrites of one place composed, with what one makes and another removes left out.

A rewrite continues an earlier one if it removes something that the earlier one made: resolve-promote-types replaces a
ConvertPromoteTypes of insert-promote-types by Casts. Composed, both are one change of the original node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir

from castsmith.analysis.inference.walk import known_types
from castsmith.ir.records import Effect, Item, NodeItem, Rewrite
from castsmith.ir.text import node_item
from castsmith.ir.walks import all_nodes

_MOST_STEPS = 12
"""Largest number of rewrites that are shown as one change; the steps of longer chains are shown one by one."""

Key = tuple[str, ...]
"""The names of the values that an item makes."""


@dataclass
class _Chain:
    """Rewrites of which each later one continues an earlier one."""

    steps: list[Rewrite] = field(default_factory=list[Rewrite])
    removed: list[Item] = field(default_factory=list[Item])
    made: dict[Key, Item] = field(default_factory=dict[Key, Item])
    others: list[Item] = field(default_factory=list[Item])
    """Items that were made and make no named value, such as text."""

    def add(self, step: Rewrite) -> None:
        self.steps.append(step)
        for item in step.removed:
            if self.made.pop(item.made, None) is None or not item.made:
                self.removed.append(item)
        for item in step.made:
            if item.made:
                self.made[item.made] = item
            else:
                self.others.append(item)


def net_rewrites(rewrites: Sequence[Rewrite], model: onnx_ir.Model) -> list[Rewrite]:
    """Return the rewrites with those of one place composed, in the order of their first steps.

    Args:
        rewrites: The rewrites of a run, in order.
        model: The model after the run, from which the nodes of composed rewrites are shown.
    """
    chains = _chains(rewrites)
    if all(len(chain.steps) == 1 for chain in chains):
        return list(rewrites)
    types = known_types(model)
    nodes = {tuple(value.name or "" for value in node.outputs): node for node in all_nodes(model) if node.outputs}
    order = {key: index for index, key in enumerate(nodes)}
    net: list[Rewrite] = []
    for chain in chains:
        if len(chain.steps) == 1 or len(chain.steps) > _MOST_STEPS:
            net += chain.steps
            continue
        items = [
            node_item(nodes[key], types) if isinstance(item, NodeItem) and key in nodes else item
            for key, item in sorted(chain.made.items(), key=lambda entry: order.get(entry[0], -1))
        ]
        net += _composed(chain, [*items, *chain.others])
    return net


def _chains(rewrites: Sequence[Rewrite]) -> list[_Chain]:
    """Return the chains of rewrites, in the order of their first steps; a step that continues several joins them."""
    chain_of: dict[Key, int] = {}
    joined: list[int] = []

    def root(index: int) -> int:
        while joined[index] != index:
            index = joined[index]
        return index

    for index, rewrite in enumerate(rewrites):
        earlier = {root(chain_of[item.made]) for item in rewrite.removed if item.made in chain_of}
        joined.append(min(earlier, default=index))
        for before in earlier:
            joined[before] = joined[index]
        chain_of.update({item.made: index for item in rewrite.made if item.made})
    chains: dict[int, _Chain] = {}
    for index, rewrite in enumerate(rewrites):
        chains.setdefault(root(index), _Chain()).add(rewrite)
    return list(chains.values())


def _composed(chain: _Chain, items: Sequence[Item]) -> Iterable[Rewrite]:
    """Yield one rewrite for the chain; none if it changes nothing."""
    same = {item.code for item in chain.removed} & {item.code for item in items}
    removed = [item for item in chain.removed if item.code not in same]
    items = [item for item in items if item.code not in same]
    if not removed and not items:
        return
    steps = chain.steps
    saved = [step.saved_bytes for step in steps if step.saved_bytes is not None]
    yield Rewrite(
        " + ".join(dict.fromkeys(step.pass_name for step in steps)),
        " + ".join(dict.fromkeys(step.rule for step in steps)),
        steps[0].site,
        reason="; ".join(dict.fromkeys(step.reason for step in steps)),
        effect=next((step.effect for step in steps if step.effect is not Effect.BIT_EXACT), Effect.BIT_EXACT),
        saved_bytes=sum(saved) if saved else None,
        removed=removed,
        made=items,
    )
