"""Casts and bytes of constants saved, by rule, found by comparing the model between the passes.

An addition counts for the rewrite that defines its name, a removal for the last rewrite that takes it as an operand;
anything without a name in a rewrite, such as unused constants, for the pass as a whole. A cast is identified by its
result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir

from castsmith.ir.ops.promote_types import CASTSMITH_DOMAIN
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS
from castsmith.ir.records import Refusal, Rewrite
from castsmith.ir.survey import survey
from castsmith.ir.walks import Held, all_tensors, nodes_of, tensor_places
from castsmith.numerics.types import type_name

# ModelSizes of a model, for the line that compares before and after.

RuleKey = tuple[str, str]
"""A pass and a rule; the rule is empty for changes outside its rules, such as dropping unused constants."""


@dataclass(frozen=True)
class Amount:
    """Totals of one rule: the number of rewrites, and the casts and bytes of constants added and removed."""

    count: int
    casts_added: int
    casts_removed: int
    bytes_added: int
    bytes_removed: int


def count_by_rule(records: Sequence[Rewrite | Refusal]) -> Counter[RuleKey]:
    """Return the number of records of each rule of each pass, in the order of first appearance."""
    return Counter((record.pass_name, record.rule) for record in records)


@dataclass(frozen=True)
class Measure:
    """Counts and sizes of a model.

    Attributes:
        nodes: Nodes in graphs, subgraphs and functions.
        casts: The casts among them.
        operators: The nodes by operator, the most frequent first.
        tensor_bytes: Bytes of the tensors.
        tensor_types: Bytes of the tensors by element type, as ONNX text names it; the largest first.
        file_bytes: Bytes of the file, if there is one.
    """

    nodes: int
    casts: int
    operators: Mapping[str, int]
    tensor_bytes: int
    tensor_types: Mapping[str, int]
    file_bytes: int | None = None


def measure(model: onnx_ir.Model, file_bytes: int | None = None) -> Measure:
    """Count the nodes and the bytes of the tensors of `model`."""
    nodes, types = survey(model), Counter[str]()
    for tensor in all_tensors(model):
        types[type_name(tensor.dtype)] += tensor.nbytes
    operators = Counter(node.op_type for node in nodes.nodes)
    counts = len(nodes.nodes), nodes.count_casts(), dict(operators.most_common())
    return Measure(*counts, types.total(), dict(types.most_common()), file_bytes)


@dataclass(frozen=True)
class ModelSizes:
    """ModelSizes of a model before and after, and the amount of each rule in the order of first appearance."""

    before: Measure
    after: Measure
    rules: Mapping[RuleKey, Amount]


Amounts = dict[str, tuple[int, int]]
"""The bytes of tensors and the number of casts, by the names of the values that hold or give them."""


@dataclass
class Watched:
    """The constants and casts of a model, before each pass and after the last."""

    model: onnx_ir.Model
    moments: list[tuple[str, Amounts]] = field(default_factory=list[tuple[str, Amounts]])

    def noting(self, announce: Callable[[str], None]) -> Callable[[str], None]:
        """Return the function, which also records the constants and casts before the pass that it announces."""

        def note(pass_name: str) -> None:
            announce(pass_name)
            self.moments.append((pass_name, _amounts_of(self.model)))

        return note

    def amounts(self, rewrites: Sequence[Rewrite]) -> dict[RuleKey, Amount]:
        """Return casts and bytes saved, by rule, in the order of first appearance, then those outside rules.

        Passes that ran twice are counted as one.
        """
        if self.moments:
            self.moments.append(("", _amounts_of(self.model)))
        counts = count_by_rule(rewrites)
        totals = {key: [0, 0, 0, 0] for key in counts}
        for (name, before), (_, after) in zip(self.moments, self.moments[1:], strict=False):
            changed = [value for value in {**before, **after} if before.get(value) != after.get(value)]
            makers, users = _mentions(record for record in rewrites if record.pass_name == name)
            for value in changed:
                totals_of_rule = totals.setdefault((name, makers.get(value) or users.get(value) or ""), [0, 0, 0, 0])
                for side, (size, casts) in ((1, before.get(value, _NOTHING)), (0, after.get(value, _NOTHING))):
                    totals_of_rule[side] += casts
                    totals_of_rule[2 + side] += size
        return {key: Amount(counts[key], *amounts) for key, amounts in totals.items()}


_NOTHING = (0, 0)


def _amounts_of(model: onnx_ir.Model) -> Amounts:
    """Return the tensors and casts now, which are those that `measure` counts; a name may stand in several scopes."""
    amounts: Amounts = {}
    for place, tensor in tensor_places(model):
        owner = place.owner if isinstance(place, Held) else place
        name = owner.outputs[0].name if isinstance(owner, onnx_ir.Node) and owner.outputs else owner.name
        size, casts = amounts.get(name or "", _NOTHING)
        amounts[name or ""] = size + tensor.nbytes, casts
    own = (function for function in model.functions.values() if function.domain != CASTSMITH_DOMAIN)
    for node in (node for scope in (model.graph, *own) for node in nodes_of(scope)):
        if node.op_type in CASTS and node.domain in DEFAULT_DOMAINS:
            size, casts = amounts.get(node.outputs[0].name or "", _NOTHING)
            amounts[node.outputs[0].name or ""] = size, casts + 1
    return amounts


def _mentions(rewrites: Iterable[Rewrite]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the rules by the names of the values in their new items, and by those in their removed items.

    A value that several rewrites mention counts for the one with the fewest items, and the first of these: a cast or a
    constant for its own, not for the region that is converted around it.
    """
    makers: dict[str, tuple[int, str]] = {}
    users: dict[str, tuple[int, str]] = {}
    for rewrite in rewrites:
        for sites, items in ((makers, rewrite.made), (users, rewrite.removed)):
            rank = len(items), rewrite.rule
            for name in (name for item in items for name in item.names):
                if name not in sites or rank[0] < sites[name][0]:
                    sites[name] = rank
    return {name: rule for name, (_, rule) in makers.items()}, {name: rule for name, (_, rule) in users.items()}
