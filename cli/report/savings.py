"""What each rule comes to in casts and bytes of constants, found by looking at the model between the passes.

What a pass adds belongs to the rewrite that defines its name, what it removes to the last that takes it as an operand;
what neither names, such as constants that nothing used, to the pass as a whole. A cast is known by what it gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops import CASTSMITH_DOMAIN, DEFAULT_DOMAINS
from castsmith.ir.records import Rewrite
from castsmith.ir.walks import all_nodes, all_tensors, graphs_with_initializers, nodes_of

# What a model amounts to, for the line that compares before and after.

_CASTS = ("Cast", "CastLike")


RuleKey = tuple[str, str]
"""A pass and a rule; the rule is empty for what the pass did beside its rules, such as dropping unused constants."""


@dataclass(frozen=True)
class Amount:
    """What the rewrites of one rule come to: how many, and what they add and remove of casts and bytes of constants."""

    count: int
    casts_added: int
    casts_removed: int
    bytes_added: int
    bytes_removed: int


@dataclass(frozen=True)
class Measure:
    """Nodes in graphs, subgraphs and functions; bytes that the tensors hold; bytes of the file, where it is one."""

    nodes: int
    casts: int
    tensor_bytes: int
    file_bytes: int | None = None


def measure(model: onnx_ir.Model, file_bytes: int | None = None) -> Measure:
    """Count the nodes, the casts among them and the bytes of the tensors of `model`."""
    nodes = casts = 0
    for node in all_nodes(model):
        nodes += 1
        casts += node.op_type in _CASTS and node.domain in DEFAULT_DOMAINS
    return Measure(nodes, casts, sum(tensor.nbytes for tensor in all_tensors(model)), file_bytes)


@dataclass(frozen=True)
class Sizes:
    """A model before and after, and what each rule did to it in the order in which they first did."""

    before: Measure
    after: Measure
    rules: Mapping[RuleKey, Amount]


_CASTING = ("Cast", "CastLike")


Held = dict[str, tuple[int, bool]]
"""By the names of constants and of what casts give: the bytes, and whether it is a cast."""


Known = dict[int, tuple[object, int]]
"""The sizes of tensors and Constant nodes by their identity, and these so that no other takes it."""


@dataclass
class Watched:
    """The constants and casts of a model, ahead of each pass and after the last."""

    model: onnx_ir.Model
    moments: list[tuple[str, Held]] = field(default_factory=list[tuple[str, Held]])
    known: Known = field(default_factory=dict[int, tuple[object, int]])

    def note(self, pass_name: str) -> None:
        """Remember what there is ahead of the pass."""
        self.moments.append((pass_name, dict(_held(self.model, self.known))))

    def amounts(self, rewrites: Sequence[Rewrite]) -> dict[RuleKey, Amount]:
        """What each rule comes to, once all passes have run, in the order in which they first appear; then what passes
        did beside them. Passes that are run twice are told as one."""
        if self.moments:
            self.note("")
        counts = Counter((record.pass_name, record.rule) for record in rewrites)
        found = {key: [0, 0, 0, 0] for key in counts}
        for (name, before), (_, after) in zip(self.moments, self.moments[1:], strict=False):
            changed = [value for value in {**before, **after} if before.get(value) != after.get(value)]
            makers, users = _mentions(record for record in rewrites if changed and record.pass_name == name)
            for value in changed:
                here = found.setdefault((name, makers.get(value) or users.get(value) or ""), [0, 0, 0, 0])
                for side, (size, is_cast) in ((1, before.get(value, _NOTHING)), (0, after.get(value, _NOTHING))):
                    here[side] += is_cast
                    here[2 + side] += size
        return {key: Amount(counts[key], *amounts) for key, amounts in found.items()}


_NOTHING = (0, False)


def _held(model: onnx_ir.Model, known: Known) -> Iterator[tuple[str, tuple[int, bool]]]:
    """What there is now; `known` has the sizes of tensors and Constant nodes that were asked before."""
    for graph in graphs_with_initializers(model):
        for name, value in graph.initializers.items():
            if value.const_value is not None:
                yield name, (_size(value.const_value, value.const_value, known), False)
    own = (function for function in model.functions.values() if function.domain != CASTSMITH_DOMAIN)
    for node in (node for scope in (model.graph, *own) for node in nodes_of(scope)):
        if node.op_type in _CASTING:
            yield node.outputs[0].name or "", (0, True)
        elif node.op_type == "Constant":
            yield node.outputs[0].name or "", (_size(node, None, known), False)


def _size(key: onnx_ir.Node | onnx_ir.TensorProtocol, tensor: onnx_ir.TensorProtocol | None, known: Known) -> int:
    if id(key) not in known:
        held = constant_tensor(key.outputs[0]) if isinstance(key, onnx_ir.Node) else tensor
        known[id(key)] = key, 0 if held is None else held.nbytes
    return known[id(key)][1]


def _mentions(rewrites: Iterable[Rewrite]) -> tuple[dict[str, str], dict[str, str]]:
    """The rules by the names of the values that their rewrites make or take after, and by those before."""
    makers: dict[str, str] = {}
    users: dict[str, str] = {}
    for rewrite in rewrites:
        makers.update((name, rewrite.rule) for item in rewrite.made for name in item.names)
        users.update((name, rewrite.rule) for item in rewrite.removed for name in item.names)
    return makers, users
