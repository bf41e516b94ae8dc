"""Comparison of two models by meaning: the differences as plain data.

Not a difference: the names of intermediate values, nodes and initializers, the order of nodes, whether a constant is
an initializer or a Constant node, how tensors are stored, attributes at their defaults, unused constants, types
declared for intermediate values in one model alone, the producer, and documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

import onnx_ir

from castsmith.analysis.inference.walk import known_types
from castsmith.ir.codes import Rule
from castsmith.ir.io.carried import training_of
from castsmith.ir.io.loading import ModelLike, as_model
from castsmith.ir.notebook import notebook_html
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.records import Effect, NodeItem, Rewrite, Site
from castsmith.ir.walks import imports_by_scope
from castsmith.numerics.arguments import flag
from castsmith.numerics.errors import OptionError
from castsmith.verification.diff.graphs import compare_graphs
from castsmith.verification.diff.interface import Change, GraphComparison, pair_by_index, pair_by_name
from castsmith.verification.diff.keys import Keys

UNRECORDED_CHANGE = Rule(
    "unrecorded-change",
    ("A pass made this change without a record. Castsmith found it by comparing the model before and after."),
    why="Castsmith does not know whether this change keeps the values.",
    example="- y = Relu (x)\n+ y = Sigmoid (x)",
    advice="Check what the pass does, or run castsmith verify.",
    safety=(Effect.UNKNOWN,),
    silence="Leave out that pass.",
)


@dataclass(frozen=True)
class ModelDiff:
    """The changes from one model to another. It is true if the models differ.

    Attributes:
        changes: The changes, in the order of the second model.
        nodes_same: The number of equal nodes.
        nodes_changed: The number of matched nodes that differ.
        nodes_added: The number of nodes of the second model alone.
        nodes_removed: The number of nodes of the first model alone.
    """

    changes: tuple[Change, ...]
    nodes_same: int
    nodes_changed: int
    nodes_added: int
    nodes_removed: int

    def __bool__(self) -> bool:
        return bool(self.changes)

    def summary(self) -> str:
        """One sentence: the number of differences, and the counts of nodes."""
        if not self.changes:
            return f"the same: {_counted(self.nodes_same, 'node')} and everything else"
        return (
            f"{_counted(len(self.changes), 'difference')}; nodes: {self.nodes_same} the same,"
            f" {self.nodes_changed} changed, {self.nodes_added} added, {self.nodes_removed} removed"
        )

    def __repr__(self) -> str:
        return f"<ModelDiff: {self.summary()}>"

    def _repr_html_(self) -> str:
        head = ("place", "what", "before", "after", "detail")
        rows = [(c.place, c.subject, c.before, c.after, c.detail) for c in self.changes]
        return notebook_html(self.summary(), {"differences": (head, rows)})


def diff(a: ModelLike, b: ModelLike, *, everything: bool = False) -> ModelDiff:
    """Compare two models by meaning.

    Not a difference: the names of intermediate values, nodes and initializers, the order of nodes, whether a constant
    is an initializer or a Constant node, how tensors are stored, attributes at their defaults, types that one model
    alone declares for intermediate values, the producer and the documentation; and, unless `everything`, the metadata
    of nodes and unused constants.

    Args:
        a: The first model: an onnx_ir.Model, a ModelProto, a torch ONNXProgram, a Result or a path.
        b: The second model.
        everything: Compare the metadata of nodes and unused constants too.

    Returns:
        The differences, true if there are any.

    Raises:
        ModelError: A model cannot be read.
    """
    flag("everything", everything, OptionError)
    return _compared(as_model(a, []), as_model(b, []), everything=everything)


def rewrites_between(a: onnx_ir.Model, b: onnx_ir.Model, pass_name: str) -> list[Rewrite]:
    """Record the changes of a pass that keeps no records, by comparing the model before and after it."""
    rewrites: list[Rewrite] = []
    for change in _compared(a, b, everything=True).changes:
        site = change.site or Site(change.place or b.graph.name or "")
        before = change.removed if isinstance(change.removed, NodeItem) else change.before
        after = change.made if isinstance(change.made, NodeItem) else change.after
        reason = f"{change.subject} differs from the model before this pass, which left no record"
        rewrites.append(Rewrite(pass_name, UNRECORDED_CHANGE.code, site, before, after, reason, Effect.UNKNOWN))
    return rewrites


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else noun + 's'}"


def _compared(a: onnx_ir.Model, b: onnx_ir.Model, *, everything: bool) -> ModelDiff:
    keys = Keys(imports={**imports_by_scope(a), **imports_by_scope(b)}, everything=everything)
    tally = GraphComparison(types={**known_types(a), **known_types(b)})
    tally.changes += _model_changes(a, b)
    inputs, outputs = pair_by_name(a.graph.inputs, b.graph.inputs), pair_by_name(a.graph.outputs, b.graph.outputs)
    compare_graphs(a.graph, b.graph, inputs, outputs, keys, tally)
    for identifier in sorted(a.functions.keys() | b.functions.keys()):
        name = ".".join(filter(None, identifier))
        if identifier not in b.functions:
            tally.changes.append(Change("function-removed", name, "function", name, ""))
        elif identifier not in a.functions:
            tally.changes.append(Change("function-added", name, "function", "", name))
        else:
            _compare_functions(a.functions[identifier], b.functions[identifier], keys, tally)
    changes = tuple(tally.changes)
    return ModelDiff(changes, tally.same, tally.changed, tally.added, tally.removed)


def _model_changes(a: onnx_ir.Model, b: onnx_ir.Model) -> Iterator[Change]:
    if a.ir_version != b.ir_version:
        yield Change("ir-version-changed", "", "IR version", str(a.ir_version), str(b.ir_version))
    yield from _opset_changes("", a.graph.opset_imports, b.graph.opset_imports)
    yield from _entry_changes("metadata-changed", "", "metadata", a.metadata_props, b.metadata_props)
    before, after = (_training_text(training_of(model)) for model in (a, b))
    if before != after:
        yield Change("training-changed", "", "training information", before, after)


def _training_text(infos: tuple[bytes, ...]) -> str:
    if not infos:
        return "none"
    return (
        f"{len(infos)} {'entry' if len(infos) == 1 else 'entries'} (SHA-256 {sha256(b''.join(infos)).hexdigest()[:12]})"
    )


def _compare_functions(a: onnx_ir.Function, b: onnx_ir.Function, keys: Keys, tally: GraphComparison) -> None:
    tally.changes += _opset_changes(a.name, a.opset_imports, b.opset_imports)
    parameters = ({name: str(f.attributes[name].value) for name in f.attributes} for f in (a, b))
    tally.changes += _entry_changes("parameter-changed", a.name, "parameter", *parameters)
    inputs, outputs = pair_by_index(a.inputs, b.inputs), pair_by_index(a.outputs, b.outputs)
    compare_graphs(a, b, inputs, outputs, keys, tally)


def _opset_changes(place: str, a: Mapping[str, int], b: Mapping[str, int]) -> Iterator[Change]:
    imports = [{_domain(domain): str(version) for domain, version in side.items()} for side in (a, b)]
    return _entry_changes("opset-changed", place, "opset of", *imports)


def _domain(domain: str) -> str:
    return "ai.onnx" if domain in DEFAULT_DOMAINS else domain


def _entry_changes(kind: str, place: str, noun: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted(a.keys() | b.keys()):
        before, after = a.get(name, ""), b.get(name, "")
        if before != after or (name in a) != (name in b):
            yield Change(kind, place, f"{noun} {name}", before, after)
