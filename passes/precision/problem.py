"""The choice of precisions for a whole model: one variable for each node and each joint of control flow.

A value is made in the type of its producer's variable; a use needs it in the type of another. If the two differ
a cast is required, which costs the bytes that it reads and writes. A converted node saves half of its bytes,
and one that multiplies matrices more. Constants are available in either type at no cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.containers import nestings
from castsmith.analysis.inference.handed_on import Border, borders, value_at
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, actual_outputs, op_key, opset_of
from castsmith.ir.ops.table import CASTS, FLOW, traits_of
from castsmith.ir.ops.traits import Answer
from castsmith.ir.ops.value_types import Nesting
from castsmith.ir.walks import graph_of, graphs_of, nodes_of
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.core.min_cut import Costs
from castsmith.passes.place.sizes import Sizes
from castsmith.passes.precision.constants import Carried, RoundingLosses, unfit
from castsmith.passes.precision.evidence import Evidence
from castsmith.passes.precision.facts import Facts
from castsmith.passes.precision.ports import ANYTHING, CONVERTED, KEPT, Aim, Ports, Scope, Use, ports_of
from castsmith.passes.precision.sensitivity import Sensitivity, is_negligible

_WISH = 1e12
"""Cost of not converting a sequence whose conversion was requested: more than any cast."""


@dataclass
class Problem:
    """The variables of a model, producers and users, and the cost of each choice."""

    model: onnx_ir.Model
    inference: Inference
    imports: Mapping[Scope, Mapping[str, int]]
    aim: Aim
    keep: Mapping[onnx_ir.Node, str]
    lower: Mapping[onnx_ir.Node, str]
    converted_ports: frozenset[str]
    evidence: Evidence
    sizes: Sizes
    losses: RoundingLosses
    facts: Facts = field(init=False)
    costs: Costs = field(default_factory=Costs)
    variables: dict[onnx_ir.Value, int] = field(default_factory=dict[onnx_ir.Value, int])
    uses: dict[onnx_ir.Value, list[Use]] = field(default_factory=lambda: defaultdict(list))
    nodes: dict[onnx_ir.Node, tuple[int, Ports]] = field(default_factory=dict[onnx_ir.Node, tuple[int, Ports]])
    reasons: dict[onnx_ir.Node, str] = field(default_factory=dict[onnx_ir.Node, str])
    """The reason why a node is fixed to a side, or cannot change."""
    _borders: dict[Border, int] = field(default_factory=dict[Border, int])
    """The variable of what is handed on at each operand of a call or control flow, and at each output inside of it."""
    _entered: set[onnx_ir.Graph] = field(default_factory=set[onnx_ir.Graph])

    def __post_init__(self) -> None:
        self.facts = Facts(self.inference, self.aim, self.losses)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """The sensitive nodes."""
        return Sensitivity(self.aim.to, self.evidence.of, self.sizes)

    @cached_property
    def beyond(self) -> Mapping[onnx_ir.Value, str]:
        """The values that do not fit the precision by what is known of them, each with the reason."""
        return self.evidence.beyond(self.facts.concerns)

    @cached_property
    def nestings(self) -> Mapping[onnx_ir.Value, Nesting]:
        """The values that no cast converts: sequences and optional values, and how they hold their tensors."""
        return nestings(self.model)

    # Construction of the problem.

    def state(self) -> None:
        """Build the problem of the whole model, without its costs: see `gains.price`."""
        graph = self.model.graph
        for value in graph.inputs:
            if not self.facts.concerns(value):
                continue
            # Before IR version 4 every weight has to be an input too; runtimes treat it as a constant.
            is_weight = value.const_value is not None and self.model.ir_version < 4
            why = self._unfit_default(value, is_weight=is_weight)
            self.facts.carried[value] = Carried(unfit=why)
            if is_weight and why:
                self.variables[value] = KEPT
            elif is_weight and not value.is_graph_output():
                self.variables[value] = self.costs.variable()
            else:
                self.variables[value] = self._asked_of(value)
        self.facts.trace(self.model)
        self.scope(graph)
        for index, value in enumerate(graph.outputs):
            wanted = self._asked_of(value)
            if value in self.facts.constants or value.is_graph_input():
                # It cannot be renamed, so it keeps its type.
                wanted = self.variables.get(value, KEPT)
            self.use(value, graph, index, wanted)

    def _asked_of(self, value: onnx_ir.Value) -> int:
        """The side that is asked of an input or output; a sequence is converted only if all that it meets can be."""
        if value.name not in self.converted_ports:
            return KEPT
        if value not in self.nestings:
            return CONVERTED
        variable = self.costs.variable()
        self.costs.pay(CONVERTED, variable, _WISH)
        return variable

    def _unfit_default(self, value: onnx_ir.Value, *, is_weight: bool) -> str:
        """Return the reason why the default of an input does not fit: what reads it then stays in a wider type."""
        if value.const_value is None:
            return ""
        loss = self.losses.of(value.const_value)
        if loss.is_mask and not is_weight:
            return f"the default of {value.name} holds mask values"
        return unfit(value.name or "" if is_weight else f"the default of {value.name}", loss, self.aim.to)

    def scope(self, graph: onnx_ir.Graph) -> None:
        """Add the nodes of a graph, in order."""
        for node in graph:
            self._node(node)

    def use(self, value: onnx_ir.Value | None, place: onnx_ir.Node | onnx_ir.Graph, index: int, wants: int) -> None:
        """Add a use of the value."""
        if value is None:
            return
        if self.facts.concerns(value):
            self.uses[value].append(Use(value, place, index, wants))
            if wants != ANYTHING and value in self.nestings:
                self.costs.join(self.variables.get(value, KEPT), wants)
        elif wants > CONVERTED and self.facts.source(value) is None:
            # It may be of any type, so that its user cannot change.
            self.costs.fix(wants, yes=False)

    def _node(self, node: onnx_ir.Node) -> None:
        imports, function = self.imports[graph_of(node)], self.model.functions.get(node.op_identifier())
        if function is not None or (node.domain in DEFAULT_DOMAINS and node.op_type in FLOW):
            self._handing_on(node, imports)
        elif node.domain in DEFAULT_DOMAINS and node.op_type == "Constant":
            if node.outputs[0] not in self.facts.constants:
                self.variables[node.outputs[0]] = KEPT
        else:
            self._ordinary(node, imports)

    # Nodes.

    def _ordinary(self, node: onnx_ir.Node, imports: Mapping[str, int]) -> None:
        ports = ports_of(node, self.facts.source, imports, self.aim)
        variable = self.costs.variable()
        for index, value in enumerate(node.inputs):
            wants = ANYTHING if index in ports.anything else variable if index in ports.follows else KEPT
            self.use(value, node, index, wants)
        for index, value in enumerate(node.outputs):
            self.variables[value] = variable if index in ports.gives else KEPT
        if ports.concerned:
            self.nodes[node] = (variable, ports)
            self._fix(node, variable, ports, imports)
        elif ports.why_not:
            self.reasons[node] = self.keep.get(node, ports.why_not)
        for graph in graphs_of(node):
            if node.domain in DEFAULT_DOMAINS:
                self._closed(graph)
            else:
                self._left_alone(graph)

    def _fix(self, node: onnx_ir.Node, variable: int, ports: Ports, imports: Mapping[str, int]) -> None:
        """Fix the side of the node if a rule decides it, and note the reason."""
        why = self._without_casts(imports) or ports.why_not or self._inexact(node)
        why = why or self._unfit_operand(node, ports)
        asked_to_keep, asked_to_lower = self.keep.get(node, ""), self.lower.get(node, "")
        if why or asked_to_keep:
            self._keep(node, variable, ports, why or asked_to_keep)
            return
        if asked_to_lower:
            self.reasons[node] = asked_to_lower
            self.costs.fix(variable, yes=True)
            return
        why = self._exceeding(node, ports)
        if not why and self.aim.to in _SHORT:
            why = self.sensitivity.judge(node, ports, opset_of(imports, "") or 0)
        if not why and self._counts_in_short(node):
            why = f"it computes with integers, which {type_name(self.aim.to)} does not hold"
        if why:
            self._keep(node, variable, ports, why)

    def _keep(self, node: onnx_ir.Node, variable: int, ports: Ports, why: str) -> None:
        self.reasons[node] = why
        self.costs.fix(variable, yes=False)
        self.sensitivity.keep(node, ports)

    def _without_casts(self, imports: Mapping[str, int]) -> str:
        return "" if opset_of(imports, "") else "the model does not import ONNX's operators, which include Cast"

    def _counts_in_short(self, node: onnx_ir.Node) -> bool:
        """True if the node computes only with integers, some of which the precision does not hold."""
        inputs = [value for value in node.inputs if value is not None and self.facts.concerns(value)]
        return self.facts.are_counts(inputs) and any(self.facts.carry_of(value).integers for value in inputs)

    def _exceeding(self, node: onnx_ir.Node, ports: Ports) -> str:
        """The reason to leave a node of which an operand or result does not fit. Mask values are lowered instead."""
        return self._beyond(ports.values(node))

    def _beyond(self, values: Iterable[onnx_ir.Value | None]) -> str:
        """Return the reason why one of the values does not fit."""
        unfit_values = (value for value in values if value is not None and value in self.beyond)
        return next((self.beyond[value] for value in unfit_values if not self.facts.carry_of(value).masks), "")

    def _inexact(self, node: onnx_ir.Node) -> str:
        """Return the reason why a cast of integers keeps its type: the precision does not hold them."""
        if node.op_type not in CASTS:
            return ""
        source = self.facts.source(node.inputs[0])
        if source is None:
            return "the type of its operand is unknown"
        present_type = present(self.facts.source(node.outputs[0]), "the result")
        if source in self.aim.sources or embeds(source, self.aim.to) or embeds(present_type, self.aim.to):
            return ""  # it holds every integer, or all that the present type holds of them
        return f"{type_name(self.aim.to)} does not hold every {type_name(source)}"

    def _unfit_operand(self, node: onnx_ir.Node, ports: Ports) -> str:
        for index in sorted(ports.follows):
            value = present(node.inputs[index], "an operand of a type that is converted")
            carried = self.facts.carry_of(value)
            if value in self.facts.constants:
                loss = self.facts.loss(value)
                only_overflows = bool(loss.overflow or loss.masks) and not loss.lost
                if (only_overflows and self.facts.is_bound(node, index)) or is_negligible(node, value, loss):
                    continue
            if carried.masks and traits_of(node.domain, node.op_type).answer in (Answer.COMPARISON, Answer.QUESTION):
                return f"{value.name} holds mask values, with which {node.op_type} compares"
            if carried.unfit and not (value in self.facts.constants and self.facts.scales_count(node, value)):
                return carried.unfit
        return self.facts.unfit_filling(node)

    # Functions, control flow.

    def _handing_on(self, node: onnx_ir.Node, imports: Mapping[str, int]) -> None:
        """Add a call or control flow: what it hands on has one type at both ends, so that both share a variable."""
        function, fresh = self.model.functions.get(node.op_identifier()), dict[Border, None]()
        crossings, why_kept = list(borders(self.model, node)), self.keep.get(node, "")
        takes = function is not None or self._takes(node, imports)
        if why_kept:
            self.reasons[node] = why_kept
        for border, receiver in crossings:
            if border not in self._borders:
                fresh[border] = None
            if takes and self.facts.concerns(receiver):
                variable = self.variables.get(receiver, self._borders.get(border))
                self.variables[receiver] = variable = self.costs.variable() if variable is None else variable
            else:
                self.variables[receiver] = variable = KEPT
            self.costs.join(variable, self._borders.setdefault(border, variable))
            if why_kept:
                self.costs.fix(variable, yes=False)
        self._cross([crossing for crossing in crossings if crossing[0][0] is node], fresh)
        for graph in graphs_of(node) if function is None else [function.graph]:
            if graph not in self._entered:
                self._entered.add(graph)
                self.scope(graph)
        self._cross([crossing for crossing in crossings if crossing[0][0] is not node], fresh)

    def _takes(self, node: onnx_ir.Node, imports: Mapping[str, int]) -> bool:
        """True if control flow may hand on the precision."""
        key = op_key(node, imports)
        formals = () if key is None else actual_outputs(key, len(node.outputs))
        return bool(formals) and all(formal is not None and self.aim.to in formal.allowed for formal in formals)

    def _cross(self, crossings: Sequence[tuple[Border, onnx_ir.Value]], fresh: Container[Border]) -> None:
        """Add the uses at fresh borders, and keep the type of what does not fit on either side."""
        for border in dict.fromkeys(border for border, _ in crossings if border in fresh):
            self.use(value_at(border), *border, self._borders[border])
        for border, receiver in crossings:
            source = value_at(border)
            if source in self.sensitivity.wide:
                self.sensitivity.wide.add(receiver)
            unfit_inside = receiver in self.sensitivity.wide or self.facts.carry_of(receiver).unfit
            if unfit_inside or self._beyond([source, receiver]):
                self.costs.fix(self._borders[border], yes=False)

    def _closed(self, graph: onnx_ir.Graph) -> None:
        """Keep all inputs and outputs of a subgraph of a node without rules."""
        for value in graph.inputs:
            self.variables[value] = KEPT
        self.scope(graph)
        for index, value in enumerate(graph.outputs):
            self.use(value, graph, index, KEPT)

    def _left_alone(self, graph: onnx_ir.Graph) -> None:
        """A subgraph of an operator that may ask anything of it: nothing in it changes, and what it reads stays."""
        for node in nodes_of(graph):
            for index, value in enumerate(node.inputs):
                self.use(value, node, index, KEPT)
            for value in node.outputs:
                self.variables[value] = KEPT
            self.reasons[node] = "it is in a subgraph of an operator whose rules are unknown"


_SHORT = (DataType.FLOAT16, DataType.BFLOAT16)
