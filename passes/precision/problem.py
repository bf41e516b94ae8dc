"""The choice of precisions for a whole model: one variable for each node and each joint of control flow.

A value is made in the type of its producer's variable; a use needs it in the type of another. If the two differ
a cast is required, which costs the bytes that it reads and writes. A converted node saves half of its bytes,
and one that multiplies matrices more. Constants are available in either type at no cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.containers import nestings
from castsmith.analysis.inference.walk import Inference, called_with_several_types
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, actual_outputs, input_types, op_key, opset_of
from castsmith.ir.ops.table import FLOW
from castsmith.ir.ops.value_types import Nesting
from castsmith.ir.walks import all_nodes, graph_of, graphs_in, nodes_of, subgraphs_of
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.core.min_cut import Costs
from castsmith.passes.place.sizes import Sizes
from castsmith.passes.precision.constants import Carried, RoundingLosses, unfit
from castsmith.passes.precision.evidence import Evidence
from castsmith.passes.precision.facts import Facts
from castsmith.passes.precision.operators import Place
from castsmith.passes.precision.patterns import ConversionRequest
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
    request: ConversionRequest
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
    _functions: set[onnx_ir.OperatorIdentifier] = field(default_factory=set[onnx_ir.OperatorIdentifier])
    _called: dict[onnx_ir.OperatorIdentifier, list[int]] = field(
        default_factory=dict[onnx_ir.OperatorIdentifier, "list[int]"]
    )

    def __post_init__(self) -> None:
        self.facts = Facts(self.inference, self.aim, self.losses)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """The sensitive nodes."""
        return Sensitivity(self.aim.to, self.evidence.of)

    @cached_property
    def beyond(self) -> Mapping[onnx_ir.Value, str]:
        """The values that do not fit the precision by what is known of them, each with the reason."""
        return self.evidence.beyond(self.facts.concerns)

    @cached_property
    def nestings(self) -> Mapping[onnx_ir.Value, Nesting]:
        """The values that no cast converts: sequences and optional values, and how they hold their tensors."""
        return nestings(self.model)

    @cached_property
    def _several(self) -> frozenset[Scope]:
        return called_with_several_types(self.inference)

    # Construction of the problem.

    def state(self) -> None:
        """Build the problem of the whole model, without its costs: see `gains.price`."""
        graph = self.model.graph
        for value in graph.inputs:
            if not self.facts.concerns(value):
                continue
            if value.const_value is not None and self.model.ir_version < 4:
                # Before IR version 4 every weight has to be an input too; runtimes treat it as a constant.
                self.variables[value] = self.costs.variable()
                self.constants_as_inputs(value)
            else:
                self.variables[value] = self._asked_of(value)
                self._default(value)
        self.scope(graph)
        for index, value in enumerate(graph.outputs):
            wanted = self._asked_of(value)
            if value in self.facts.constants or value.is_graph_input():
                # It cannot be renamed, so it keeps its type.
                wanted = self.variables.get(value, KEPT)
            self.use(value, graph, index, wanted)

    def _asked_of(self, value: onnx_ir.Value) -> int:
        """The side that is asked of an input or output; a sequence is converted only if all that it meets can be."""
        if value.name not in self.request.converted_ports:
            return KEPT
        if value not in self.nestings:
            return CONVERTED
        variable = self.costs.variable()
        self.costs.pay(CONVERTED, variable, _WISH)
        return variable

    def _default(self, value: onnx_ir.Value) -> None:
        """Note that the default of an input does not fit: what reads it then stays in a wider type."""
        if value.const_value is None:
            return
        loss = self.losses.of(value.const_value)
        why = f"the default of {value.name} holds mask values" if loss.is_mask else ""
        why = why or unfit(f"the default of {value.name}", loss, self.aim.to)
        if why:
            self.facts.carried[value] = Carried(unfit=why)

    def constants_as_inputs(self, value: onnx_ir.Value) -> None:
        """Keep the type of a weight that an old IR version makes an input, if it does not fit the precision."""
        loss = self.losses.of(present(value.const_value, "the default of the input"))
        why = unfit(value.name or "", loss, self.aim.to)
        if why:
            self.facts.carried[value] = Carried(unfit=why)
            self.costs.fix(self.variables[value], yes=False)

    def scope(self, scope: Scope) -> None:
        """Add the nodes of a graph or a function, in order."""
        if isinstance(scope, onnx_ir.Graph):
            for value in scope.initializers.values():
                self._constant(value)
        for node in scope:
            self._node(node)

    def use(self, value: onnx_ir.Value | None, place: onnx_ir.Node | Scope, index: int, wants: int) -> None:
        """Add a use of the value."""
        if value is not None and wants > CONVERTED and self.facts.source(value) is None:
            # It may be of any type, so that its user cannot change.
            self.costs.fix(wants, yes=False)
        if value is None or not self.facts.concerns(value):
            return
        self.uses[value].append(Use(value, place, index, wants))
        if wants != ANYTHING and value in self.variables and value in self.nestings:
            self.costs.join(self.variables[value], wants)

    def _constant(self, value: onnx_ir.Value) -> None:
        tensor = constant_tensor(value)
        if tensor is None or not self.facts.concerns(value):
            return
        self.facts.constants[value] = tensor

    def _node(self, node: onnx_ir.Node) -> None:
        imports = self.imports[graph_of(node)]
        if node.op_identifier() in self.model.functions:
            self._call(node)
        elif node.domain in DEFAULT_DOMAINS and node.op_type in FLOW:
            self._flow(node, imports)
        elif node.domain in DEFAULT_DOMAINS and node.op_type == "Constant":
            self._constant(node.outputs[0])
            if node.outputs[0] not in self.facts.constants and self.facts.concerns(node.outputs[0]):
                self.variables[node.outputs[0]] = KEPT
        else:
            self._ordinary(node, imports)

    # Nodes.

    def _ordinary(self, node: onnx_ir.Node, imports: Mapping[str, int]) -> None:
        ports = ports_of(node, self.facts.source, imports, self.aim)
        variable = self.costs.variable() if ports.concerned else KEPT
        for index, value in enumerate(node.inputs):
            wants = ANYTHING if index in ports.anything else variable if index in ports.follows else KEPT
            self.use(value, node, index, wants)
        for index, value in enumerate(node.outputs):
            if self.facts.concerns(value):
                self.variables[value] = variable if index in ports.gives else KEPT
        self.facts.carry(node)
        if ports.concerned:
            self.nodes[node] = (variable, ports)
            self._fix(node, variable, ports, imports)
        elif ports.why_not:
            self.reasons[node] = self.request.keep.get(node, ports.why_not)
        for attribute in node.attributes.data.values():
            for graph in graphs_in(attribute):
                if node.domain in DEFAULT_DOMAINS:
                    self._closed(graph)
                else:
                    self._left_alone(graph)

    def _fix(self, node: onnx_ir.Node, variable: int, ports: Ports, imports: Mapping[str, int]) -> None:
        """Fix the side of the node if a rule decides it, and note the reason."""
        why = ports.why_not or self._without_casts(imports) or self._inexact(node, ports)
        why = why or self._unfit_operand(node, ports)
        asked_to_keep, asked_to_lower = self.request.keep.get(node, ""), self.request.lower.get(node, "")
        if why or asked_to_keep:
            self._keep(node, variable, ports, imports, why or asked_to_keep)
            return
        if asked_to_lower:
            self.reasons[node] = asked_to_lower
            self.costs.fix(variable, yes=True)
            return
        why = self._exceeding(node, ports)
        if not why and self.aim.to in _SHORT:
            why = self.sensitivity.judge(node, ports, self._place(imports))
        if not why and self._counts_in_short(node):
            why = f"it computes with integers, which {type_name(self.aim.to)} does not hold"
        if why:
            self._keep(node, variable, ports, imports, why)

    def _keep(self, node: onnx_ir.Node, variable: int, ports: Ports, imports: Mapping[str, int], why: str) -> None:
        self.reasons[node] = why
        self.costs.fix(variable, yes=False)
        self.sensitivity.keep(node, ports, self._place(imports))

    def _place(self, imports: Mapping[str, int]) -> Place:
        return Place(opset_of(imports, "") or 0, self.sizes.dims)

    def _without_casts(self, imports: Mapping[str, int]) -> str:
        return "" if opset_of(imports, "") else "the model does not import ONNX's operators, which include Cast"

    def _counts_in_short(self, node: onnx_ir.Node) -> bool:
        """True if the node computes only with integers, some of which the precision does not hold."""
        inputs = [value for value in node.inputs if value is not None and self.facts.concerns(value)]
        return self.facts.are_counts(inputs) and any(self.facts.carry_of(value).integers for value in inputs)

    def _exceeding(self, node: onnx_ir.Node, ports: Ports) -> str:
        """The reason to leave a node of which an operand or result does not fit. Mask values are lowered instead."""
        values = [node.outputs[index] for index in sorted(ports.gives)]
        return self._beyond([*values, *(node.inputs[index] for index in sorted(ports.follows))])

    def _beyond(self, values: Iterable[onnx_ir.Value | None]) -> str:
        """Return the reason why one of the values does not fit."""
        unfit_values = (value for value in values if value is not None and value in self.beyond)
        return next((self.beyond[value] for value in unfit_values if not self.facts.carry_of(value).masks), "")

    def _inexact(self, node: onnx_ir.Node, ports: Ports) -> str:
        """Return the reason why a Cast of integers keeps its type: the precision does not hold them."""
        if not ports.gives or node.op_type != "Cast":
            return ""
        source = self.facts.source(node.inputs[0])
        if source is None:
            return "the type of its operand is unknown"
        if source in self.aim.sources or source == self.aim.to or source == DataType.BOOL:
            return ""
        present_type = self.facts.source(node.outputs[0])
        if embeds(source, self.aim.to) or (present_type is not None and embeds(present_type, self.aim.to)):
            return ""  # it holds every integer, or all that the present type holds of them
        return f"{type_name(self.aim.to)} does not hold every {type_name(source)}"

    def _unfit_operand(self, node: onnx_ir.Node, ports: Ports) -> str:
        for index in sorted(ports.follows):
            value = node.inputs[index]
            if value is None:
                continue
            carried = self.facts.carry_of(value)
            if value in self.facts.constants and self.facts.is_bound(node, index) and self.facts.only_overflows(value):
                continue
            if value in self.facts.constants and is_negligible(node, value, self.facts.loss(value)):
                continue
            if carried.masks and self.facts.asks(node):
                return f"{value.name} holds mask values, with which {node.op_type} compares"
            if carried.unfit and not (value in self.facts.constants and self.facts.scales_count(node, value)):
                return carried.unfit
        return self.facts.unfit_filling(node)

    # Functions, control flow.

    def _call(self, node: onnx_ir.Node) -> None:
        identifier = node.op_identifier()
        function = self.model.functions[identifier]
        if function.graph in self._several:
            self._untouched(node, "the function is called with several types")
            return
        if identifier not in self._called:
            self._called[identifier] = []
            ins = [self._port(value) for value in function.inputs]
            for index, (value, variable) in enumerate(zip(function.inputs, ins, strict=True)):
                self._pass_on(variable, self._arguments.get((identifier, index), ()), value)
            self.scope(function)
            outs = [self._port(value, producing=False) for value in function.outputs]
            for index, (value, variable) in enumerate(zip(function.outputs, outs, strict=True)):
                self.use(value, function, index, variable)
            self._called[identifier] = [*ins, *outs]
        ports = self._called[identifier]
        for variable, value in zip(ports, node.inputs, strict=False):
            self._pass_on(variable, [value])
        if self._is_kept(node):
            for variable in ports:
                self.costs.fix(variable, yes=False)
        for index, value in enumerate(node.inputs):
            self.use(value, node, index, ports[index])
        for value, variable, inner in zip(node.outputs, ports[len(function.inputs) :], function.outputs, strict=False):
            if self.facts.concerns(value):
                self.variables[value] = variable
                self._pass_on(variable, [inner], value)

    @cached_property
    def _arguments(self) -> Mapping[tuple[onnx_ir.OperatorIdentifier, int], list[onnx_ir.Value]]:
        """The constants that calls pass to each input of a function; they count for all of its calls."""
        constants: dict[tuple[onnx_ir.OperatorIdentifier, int], list[onnx_ir.Value]] = defaultdict(list)
        for node in all_nodes(self.model):
            if node.op_identifier() not in self.model.functions:
                continue
            for index, value in enumerate(node.inputs):
                if value is not None and (value in self.facts.constants or constant_tensor(value) is not None):
                    self._constant(value)
                    constants[node.op_identifier(), index].append(value)
        return constants

    def _pass_on(self, variable: int, values: Iterable[onnx_ir.Value | None], *results: onnx_ir.Value) -> None:
        """Note what the results of control flow or of a call hold that does not fit, and keep their type."""
        sources = [value for value in values if value is not None]
        carried = [self.facts.carry_of(value) for value in sources]
        why = next((operand.unfit for operand in carried if operand.unfit), "")
        masks = tuple(dict.fromkeys(mask for operand in carried for mask in operand.masks))
        if why or masks:
            self.facts.carried.update((value, Carried(why, masks)) for value in results if self.facts.concerns(value))
        wide = not self.sensitivity.wide.isdisjoint(sources)
        if wide:
            self.sensitivity.wide.update(results)
        if why or wide or self._beyond([*sources, *results]):
            self.costs.fix(variable, yes=False)

    def _port(self, value: onnx_ir.Value, *, producing: bool = True) -> int:
        if not self.facts.concerns(value):
            return KEPT
        variable = self.costs.variable()
        if producing:
            self.variables[value] = variable
        return variable

    def _flow(self, node: onnx_ir.Node, imports: Mapping[str, int]) -> None:
        if node.op_type == "If":
            self._branches(node, imports)
            return
        body = node.attributes["body"].as_graph()
        if node.op_type == "Loop":
            states, first_inside, first_end, scanned = len(node.inputs) - 2, 2, 1, 0
            first_input = 2
        else:
            first_input = int(opset_of(imports, "") == 8)
            scanned = node.attributes["num_scan_inputs"].as_int()
            states, first_inside, first_end = len(node.inputs) - first_input - scanned, 0, 0
        variables = self._joints(node, imports)
        scans = node.op_type == "Scan" and self.aim.to in input_types(node, first_input, imports)
        scans = scans and not self._is_kept(node)
        for index in range(first_input):
            self.use(node.inputs[index], node, index, KEPT)
        for value in body.inputs[:first_inside]:
            self._give(value, KEPT)
        for number in range(states):
            variable, value = variables[number], node.inputs[first_input + number]
            self.use(value, node, first_input + number, variable)
            self._give(body.inputs[first_inside + number], variable)
            back = self.facts.constants_behind(body.outputs[first_end + number])
            self._pass_on(variable, [value, *back], body.inputs[first_inside + number])
        for number in range(states, states + scanned):
            value = node.inputs[first_input + number]
            variable = self._port(body.inputs[first_inside + number]) if scans else KEPT
            self._give(body.inputs[first_inside + number], variable)
            self.use(value, node, first_input + number, variable)
            self._pass_on(variable, [value], body.inputs[first_inside + number])
        self.scope(body)
        for index in range(first_end):
            self.use(body.outputs[index], body, index, KEPT)
        for number, output in enumerate(node.outputs):
            self._give(output, variables[number])
            self.use(body.outputs[first_end + number], body, first_end + number, variables[number])
            start = node.inputs[first_input + number] if number < states else None
            self._pass_on(variables[number], [body.outputs[first_end + number], start], output)

    def _branches(self, node: onnx_ir.Node, imports: Mapping[str, int]) -> None:
        variables = self._joints(node, imports)
        for name in ("then_branch", "else_branch"):
            branch = node.attributes[name].as_graph()
            self.scope(branch)
            for index, variable in enumerate(variables):
                self.use(branch.outputs[index], branch, index, variable)
        for index, (output, variable) in enumerate(zip(node.outputs, variables, strict=True)):
            self._give(output, variable)
            results = (node.attributes[name].as_graph().outputs[index] for name in ("then_branch", "else_branch"))
            self._pass_on(variable, results, output)

    def _joints(self, node: onnx_ir.Node, imports: Mapping[str, int]) -> list[int]:
        """Return a variable for each output of control flow that may have the precision, or the kept side."""
        key, kept = op_key(node, imports), self._is_kept(node)
        formals = actual_outputs(key, len(node.outputs)) if key is not None else ()
        variables: list[int] = []
        for value, formal in zip(node.outputs, formals, strict=True):
            takes = formal is not None and self.aim.to in formal.allowed and not kept
            variables.append(self.costs.variable() if takes and self.facts.concerns(value) else KEPT)
        return variables

    def _is_kept(self, node: onnx_ir.Node) -> bool:
        """True if the caller keeps a call or control flow, and note the reason; all inside is kept as well."""
        why = self.request.keep.get(node, "")
        if why:
            self.reasons[node] = why
        return bool(why)

    def _give(self, value: onnx_ir.Value, variable: int) -> None:
        if self.facts.concerns(value):
            self.variables[value] = variable

    def _untouched(self, node: onnx_ir.Node, why: str) -> None:
        """Keep all inputs and outputs of a node."""
        self.reasons[node] = why
        for index, value in enumerate(node.inputs):
            self.use(value, node, index, KEPT)
        for value in node.outputs:
            self._give(value, KEPT)

    def _closed(self, graph: onnx_ir.Graph) -> None:
        """Keep all inputs and outputs of a subgraph of a node without rules."""
        for value in graph.inputs:
            self._give(value, KEPT)
        self.scope(graph)
        for index, value in enumerate(graph.outputs):
            self.use(value, graph, index, KEPT)

    def _left_alone(self, graph: onnx_ir.Graph) -> None:
        """A subgraph of an operator that may ask anything of it: nothing in it changes, and what it reads stays."""
        for node in nodes_of(graph):
            for index, value in enumerate(node.inputs):
                self.use(value, node, index, KEPT)
            for value in node.outputs:
                self._give(value, KEPT)
            self.reasons[node] = "it is in a subgraph of an operator whose rules are unknown"
        for inner in (graph, *subgraphs_of(graph)):
            for value in (*inner.inputs, *inner.initializers.values()):
                self._give(value, KEPT)
            for index, value in enumerate(inner.outputs):
                self.use(value, inner, index, KEPT)


_SHORT = (DataType.FLOAT16, DataType.BFLOAT16)
