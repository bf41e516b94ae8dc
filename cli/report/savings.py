"""The sizes of a model before and after, and the casts and bytes of constants that each rule saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir

from castsmith.ir.ops.promote_types import CASTSMITH_DOMAIN
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS
from castsmith.ir.records import Refusal, Rewrite
from castsmith.ir.survey import survey
from castsmith.ir.walks import Held, nodes_of, tensor_places
from castsmith.numerics.types import type_name

RuleKey = tuple[str, str]
"""A pass and a rule."""


@dataclass
class Amount:
    """Totals of one rule: the number of rewrites, and the casts and bytes of constants added and removed."""

    count: int
    casts_added: int = 0
    casts_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0


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
    for tensor in nodes.constants():
        types[type_name(tensor.dtype)] += tensor.nbytes
    operators = Counter(node.op_type for node in nodes.nodes)
    counts = len(nodes.nodes), nodes.count_casts(), dict(operators.most_common())
    return Measure(*counts, types.total(), dict(types.most_common()), file_bytes)


@dataclass(frozen=True)
class ModelSizes:
    """The sizes of a model before and after, and the amount of each rule in the order of first appearance."""

    before: Measure
    after: Measure
    rules: Mapping[RuleKey, Amount]


OTHER: RuleKey = ("", "")
"""Changes outside the records, such as dropping unused constants and nodes."""


def count_by_rule(records: Sequence[Rewrite | Refusal]) -> Counter[RuleKey]:
    """Return the number of records of each rule of each pass, in the order of first appearance."""
    return Counter((record.pass_name, record.rule) for record in records)


Holdings = dict[str, tuple[int, int]]
"""The bytes of constants and the number of casts, by the names of the values that hold or give them."""


def amounts(rewrites: Sequence[Rewrite], before: Holdings, after: Holdings) -> dict[RuleKey, Amount]:
    """Return casts and bytes saved, by rule, in the order of first appearance, then those of no rule.

    What appears counts for the rule that makes its name, and what disappears for the rule that last used it.

    Args:
        rewrites: The records.
        before: The constants and casts before, as `holdings` gives them.
        after: Those after.
    """
    totals = {key: Amount(count) for key, count in count_by_rule(rewrites).items()}
    makers, users = _mentions(rewrites)
    for name in {**before, **after}:
        if before.get(name) == after.get(name):
            continue
        first, second = (makers, users) if name in after else (users, makers)
        amount = totals.setdefault(first.get(name) or second.get(name) or OTHER, Amount(0))
        for size, casts in filter(None, [after.get(name)]):
            amount.bytes_added += size
            amount.casts_added += casts
        for size, casts in filter(None, [before.get(name)]):
            amount.bytes_removed += size
            amount.casts_removed += casts
    return totals


def holdings(model: onnx_ir.Model) -> Holdings:
    """Return the tensors and casts, which are those that `measure` counts; a name may stand in several scopes."""
    amounts = Holdings()
    for place, tensor in tensor_places(model):
        owner = place.owner if isinstance(place, Held) else place
        name = owner.outputs[0].name if isinstance(owner, onnx_ir.Node) and owner.outputs else owner.name
        size, casts = amounts.get(name or "", (0, 0))
        amounts[name or ""] = size + tensor.nbytes, casts
    own = (function for function in model.functions.values() if function.domain != CASTSMITH_DOMAIN)
    for node in (node for scope in (model.graph, *own) for node in nodes_of(scope)):
        if node.op_type in CASTS and node.domain in DEFAULT_DOMAINS:
            size, casts = amounts.get(node.outputs[0].name or "", (0, 0))
            amounts[node.outputs[0].name or ""] = size, casts + 1
    return amounts


def _mentions(rewrites: Sequence[Rewrite]) -> tuple[dict[str, RuleKey], dict[str, RuleKey]]:
    """Return the rules by the names of the values in their new items, and by those in their removed items.

    A value that several rewrites mention counts for the one with the fewest items: a constant for its own, not for the
    region that is converted around it. Of these the first makes it, and the last uses it.
    """
    makers, users = dict[str, RuleKey](), dict[str, RuleKey]()
    for rewrite in sorted(rewrites, key=lambda rewrite: len(rewrite.made)):
        for name in (name for item in rewrite.made for name in item.names):
            makers.setdefault(name, (rewrite.pass_name, rewrite.rule))
    for rewrite in sorted(rewrites, key=lambda rewrite: -len(rewrite.removed)):
        for name in (name for item in rewrite.removed for name in item.names):
            users[name] = rewrite.pass_name, rewrite.rule
    return makers, users
