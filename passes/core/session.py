"""Facts about one model while passes run over it, handed from each pass to the next.

`optimize` makes one `Session` for all its passes; a pass that is called with a model alone makes its own. A pass asks
the session instead of the model. Each rewrite of `rewriting.apply_replacement` is noted there; a pass that changes the
model in another way calls `changed`. So nothing is inferred twice, and outdated facts are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir

from castsmith.analysis.inference.walk import Inference, infer_element_types
from castsmith.ir.naming import Namer
from castsmith.ir.records import Records
from castsmith.ir.survey import Survey, survey
from castsmith.ir.validation import require_order
from castsmith.ir.walks import Scope, graph_of, graphs_of, imports_by_scope
from castsmith.numerics.promotion.rules import PromotionRules


@dataclass
class Session:
    """A model, the facts that passes found about it, and their records.

    Attributes:
        model: The model in its present state.
        records: The records of all passes so far.
        in_order: Each node is known to be after those whose results it uses, as `load` leaves them.
    """

    model: onnx_ir.Model
    records: Records = field(default_factory=Records)
    in_order: bool = False
    _inference: Inference | None = field(default=None, init=False, repr=False)
    _followed: Inference | None = field(default=None, init=False, repr=False)
    _survey: Survey | None = field(default=None, init=False, repr=False)
    _imports: dict[Scope, Mapping[str, int]] | None = field(default=None, init=False, repr=False)

    def inference(self, rules: PromotionRules) -> Inference:
        """The element types of the present model, by the rules for operands that disagree."""
        inference = self._inference
        if inference is not None and inference.rules.pytorch_scalar_promotion == rules.pytorch_scalar_promotion:
            return inference
        inferred = infer_element_types(self.model, rules)
        self._inference = inferred if _is_the_same_under_all_rules(inferred) else None
        return inferred

    def follow(self, rules: PromotionRules) -> Inference:
        """Return the element types, which are kept up to date with each rewrite until the pass ends."""
        self._followed = self.inference(rules)
        return self._followed

    @property
    def survey(self) -> Survey:
        """The nodes of the present model, by operator; the survey itself never changes."""
        if self._survey is None:
            self._survey = survey(self.model)
        return self._survey

    @property
    def nodes(self) -> Sequence[onnx_ir.Node]:
        """All nodes of the present model, as in `castsmith.ir.walks.all_nodes`; the list itself never changes."""
        return self.survey.nodes

    def nodes_of(self, operators: Container[str]) -> Sequence[onnx_ir.Node]:
        """Return the nodes of these operators, of any domain, in order."""
        return self.survey.of(operators)

    @property
    def holders(self) -> Mapping[onnx_ir.Graph, onnx_ir.Node]:
        """The node that holds each subgraph, as in `castsmith.ir.walks.holders`."""
        return self.survey.holders

    def require_order(self) -> None:
        """Raise OrderError if a node uses a result that is made after it."""
        if not self.in_order:
            require_order(self.nodes)
            self.in_order = True

    @property
    def imports(self) -> Mapping[Scope, Mapping[str, int]]:
        """The opset imports of each graph of the model and each subgraph."""
        if self._imports is None:
            self._imports = imports_by_scope(self.model, self.holders)
        return self._imports

    def namer(self) -> Namer:
        """A namer for names that are unused in the present model."""
        return Namer(self.model, lambda: self.survey)

    def rewritten(
        self,
        node: onnx_ir.Node,
        added: Sequence[onnx_ir.Node],
        outputs: Sequence[onnx_ir.Value] | None,
    ) -> None:
        """Note one rewrite that was done.

        Args:
            node: The node that was replaced or rewired.
            added: The new nodes, in order.
            outputs: The replacements of the outputs of `node`, which was removed; None if it stays, with other inputs.
        """
        self._survey = None
        if self._followed is not None and self._still_follows(self._followed, node, added, outputs):
            return
        self.changed()

    def changed(self, model: onnx_ir.Model | None = None) -> None:
        """Drop the facts about the model: it was changed, or `model` replaces it."""
        self.model = self.model if model is None else model
        self._inference = self._followed = self._survey = self._imports = None
        self.in_order = False

    def end_of_pass(self, *, modified: bool) -> None:
        """Keep the facts that are valid after the pass; the last action of a pass."""
        followed, self._followed = self._followed, None
        if modified:
            self._survey = None
        if followed is None:
            if modified:
                self.changed()
        elif _is_the_same_under_all_rules(followed):
            for value in [value for value in followed.types if _is_gone(value)]:
                del followed.types[value]
            self._inference = followed
        else:
            self._inference = None

    def record(self, added: Records) -> None:
        """Add the records of a pass, except refusals and diagnostics of an earlier pass."""
        records = self.records
        records.rewrites += added.rewrites
        if added.refusals:  # most passes refuse nothing, and to count the refusals of all before takes long
            records.refusals += (Counter(added.refusals) - Counter(records.refusals)).elements()
        if added.diagnostics:
            records.diagnostics += (Counter(added.diagnostics) - Counter(records.diagnostics)).elements()

    def _still_follows(
        self,
        inference: Inference,
        node: onnx_ir.Node,
        added: Sequence[onnx_ir.Node],
        outputs: Sequence[onnx_ir.Value] | None,
    ) -> bool:
        """Update the inference; False if the rewrite changed the types of more than its own results."""
        types = inference.types
        before = [types.get(value) for value in node.outputs]
        for changed in added if outputs is not None else (*added, node):
            if graphs_of(changed) or changed.op_identifier() in inference.functions:
                return False  # the types depend on subgraphs, or on a function
            inference.walk((changed,), self.imports[graph_of(changed)])
        after = [types.get(value) for value in node.outputs]
        if outputs is not None:
            after = [inference.type_of(value) for value in outputs]
            for value in node.outputs:
                types.pop(value, None)
        return before == after


def _is_the_same_under_all_rules(inference: Inference) -> bool:
    """True if no value must be converted, and each function has one set of types."""
    return not inference.to_convert and all(len(calls) < 2 for calls in inference.signatures.values())


def _is_gone(value: onnx_ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.graph is None
