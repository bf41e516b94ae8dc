"""Validation of a model: every value has a producer, every name is text, no function calls itself, nodes fit schemas.

onnx_ir reads an invalid model with a warning in its log. Later steps rely on validity, so an invalid model is refused
here, in one sentence that names the place. Nodes out of order, which ONNX forbids and runtimes accept, are sorted.
Graphs and calls that nest deeper than walks can follow are refused too.

A node is checked against the schema of its operator: the number of inputs and outputs, no empty required input, the
kind of each attribute, required attributes, and subgraphs that fit their node. Types are not checked: Castsmith repairs
them. A node whose operator has no schema conforms, and so do attributes that its schema does not define; an operator of
another opset is checked against the schema that it has there.

    Cast <to = 1.0> (x)     "the attribute to of Cast is FLOAT, expected INT"
    Add (x)                 "Add has 1 input, expected 2"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from graphlib import CycleError, TopologicalSorter

import onnx.defs
import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.errors import ModelError, OpsetError, OrderError
from castsmith.ir.ops.qonnx import QONNX_DOMAINS
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import FLOW, RUNS_GRAPHS, type_attributes
from castsmith.ir.ops.value_types import named_type
from castsmith.ir.records import Flaw, FlawKind, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import Scope, graphs_in
from castsmith.numerics.cast.settings import NEWEST_OPSET


@dataclass(frozen=True, slots=True)
class _Form:
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed: tuple[int, ...]
    attributes: Mapping[str, AttributeType]
    required: tuple[str, ...]
    may_be_undefined: frozenset[str] = frozenset()
    """Attributes whose default is 0, which is not an element type."""
    tensors: tuple[bool, ...] = ()
    """For each output, whether it can only be a tensor."""


def nonconformity(
    node: onnx_ir.Node, imports: Mapping[str, int], functions: Mapping[onnx_ir.OperatorIdentifier, onnx_ir.Function]
) -> str | None:
    """Return how the node violates its schema, or the function that it calls; None if it conforms."""
    opset = _version(imports, node.domain)
    form = (
        _QONNX.get(node.op_type, _OTHER_QONNX)
        if node.domain in QONNX_DOMAINS
        else _form(node.domain, node.op_type, opset)
    )
    called = functions.get(node.op_identifier()) if functions else None
    if called is not None:
        return _misfit(node, (0, len(called.inputs)), (0, len(called.outputs)))
    if form is None:
        return None
    runs_graphs = node.domain in DEFAULT_DOMAINS and node.op_type in RUNS_GRAPHS
    if runs_graphs and not onnx.defs.has(node.op_type, opset, ""):
        return f"opset {opset} has no {node.op_type}"
    wrong = _misfit(node, form.inputs, form.outputs)
    if wrong is not None:
        return wrong
    for index in form.needed:
        if index < len(node.inputs) and node.inputs[index] is None:
            return f"{node.op_type} lacks the required input {index}"
    attributes = node.attributes.data
    for name in form.required:
        if name not in attributes:
            return f"{node.op_type} lacks the required attribute {name}"
        if runs_graphs and attributes[name].is_ref():
            return f"the attribute {name} of {node.op_type} is a parameter of its function, which is not supported"
    for name, attribute in attributes.items():
        expected = form.attributes.get(name)
        if expected is not None:
            wrong = _wrong_attribute(node, attribute, expected, form.may_be_undefined)
            if wrong is not None:
                return wrong
    return _unfit_subgraphs(node) if node.domain in DEFAULT_DOMAINS and node.op_type in FLOW else None


def requires_input(node: onnx_ir.Node, index: int, imports: Mapping[str, int]) -> bool:
    """True if the operator of the node, as far as its schema is known, cannot do without the input."""
    form = _form(node.domain, node.op_type, _version(imports, node.domain))
    return form is not None and index in form.needed


def _version(imports: Mapping[str, int], domain: str) -> int:
    """Return the opset of a domain; of the standard one the newest if it is not imported, as runtimes assume."""
    newest = onnx.defs.onnx_opset_version() if domain in DEFAULT_DOMAINS else 0
    return opset_of(imports, domain) or newest


def _kinds(node: onnx_ir.Node, imports: Mapping[str, int]) -> Iterator[FlawKind]:
    """Yield the kinds of flaw that a node has which does not conform to its schema."""
    form = _form(node.domain, node.op_type, _version(imports, node.domain))
    if form is None or not _has_what_is_required(node, form):
        return
    if _misfit(node, form.inputs, form.outputs) is None:
        if node.domain in DEFAULT_DOMAINS and nonconformity(node, {"": NEWEST_OPSET}, {}) is None:
            yield FlawKind.NEWER
        pairs = ((attribute.type, form.attributes.get(name)) for name, attribute in node.attributes.items())
        other = [{*pair} for pair in pairs if pair[1] not in (None, pair[0])]
        if other and all(pair == _NUMBERS for pair in other):
            yield FlawKind.NUMBER
    elif len(node.inputs) >= form.inputs[0] and len(node.outputs) >= form.outputs[0]:
        yield FlawKind.SURPLUS
        newest = _form(node.domain, node.op_type, NEWEST_OPSET)
        if len(node.inputs) > form.inputs[1] and (newest is None or len(node.inputs) > newest.inputs[1]):
            yield FlawKind.MORE_THAN_EVER
    if not form.outputs[0] <= len(node.outputs) <= form.outputs[1]:
        yield FlawKind.RESULTS


_NUMBERS = {AttributeType.INT, AttributeType.FLOAT}


def _has_what_is_required(node: onnx_ir.Node, form: _Form) -> bool:
    inputs = (node.inputs[index] for index in form.needed if index < len(node.inputs))
    return None not in inputs and all(name in node.attributes for name in form.required)


def _misfit(node: onnx_ir.Node, inputs: tuple[int, int], outputs: tuple[int, int]) -> str | None:
    for what, has, (least, most) in (
        ("input", len(node.inputs), inputs),
        ("output", len(node.outputs), outputs),
    ):
        if not least <= has <= most:
            takes = f"{least}" if least == most else f"at least {least}" if has < least else f"at most {most}"
            return f"{node.op_type} has {has} {what}{'' if has == 1 else 's'}, expected {takes}"
    return None


def _wrong_attribute(
    node: onnx_ir.Node, attribute: onnx_ir.Attr, expected: AttributeType, may_be_undefined: frozenset[str]
) -> str | None:
    op_type = node.op_type
    if attribute.type != expected:
        return f"the attribute {attribute.name} of {op_type} is {attribute.type.name}, expected {expected.name}"
    if attribute.is_ref():
        return None
    if isinstance(attribute.value, bytes) and op_type != "Constant":
        return f"the attribute {attribute.name} of {op_type}, {attribute.value!r}, is not UTF-8"
    if attribute.name not in type_attributes(node.domain, op_type):
        return None
    if attribute.value == 0 and attribute.name in may_be_undefined:
        return None
    if named_type(attribute) is None:
        return f"the attribute {attribute.name} of {op_type} is {attribute.value!r}, which is not an ONNX element type"
    return None


def _unfit_subgraphs(node: onnx_ir.Node) -> str | None:
    """Return how the number of inputs or outputs of the node's subgraphs is wrong; None if it is right."""
    if node.op_type == "If":
        for name in ("then_branch", "else_branch"):
            returned = len(node.attributes[name].as_graph().outputs)
            if returned != len(node.outputs):
                outputs = "1 output" if len(node.outputs) == 1 else f"{len(node.outputs)} outputs"
                return f"If has {outputs}, but its {name} returns {returned}"
        return None
    body = node.attributes["body"].as_graph()
    if node.op_type == "Loop":
        states = len(node.inputs) - 2
        fits = len(body.inputs) == 2 + states and len(body.outputs) == 1 + len(node.outputs) >= 1 + states
        expected = f"{2 + states} inputs and {1 + max(states, len(node.outputs))} outputs"
        return None if fits else _body_text("Loop", body, expected)
    scanned = node.attributes["num_scan_inputs"].as_int()
    first = len(node.inputs) - len(body.inputs)  # in opset 8 sequence_lens is the first input
    states = len(body.inputs) - max(1, scanned)
    fits = first in (0, 1) and 1 <= scanned <= len(body.inputs) and len(body.outputs) == len(node.outputs) >= states
    outputs = max(states, len(node.outputs))
    expected = f"{len(node.inputs)} inputs, at least {scanned} of them scanned, and {outputs} outputs"
    return None if fits else _body_text("Scan", body, expected)


def _body_text(op_type: str, body: onnx_ir.Graph, expected: str) -> str:
    return f"the body of {op_type} has {len(body.inputs)} inputs and {len(body.outputs)} outputs, expected {expected}"


_FLAGS = ("signed", "narrow", "has_inf", "has_nan", "has_subnormal", "saturation")

_OTHER_QONNX = _Form(
    (0, 2**31),
    (1, 1),
    (),
    {"rounding_mode": AttributeType.STRING, **dict.fromkeys(_FLAGS, AttributeType.INT)},
    (),
)
"""Common form of the operators of QONNX, which registers no schemas. That of Trunc depends on its version."""
_QONNX = {
    name: replace(_OTHER_QONNX, inputs=(count, count), needed=tuple(range(count)))
    for name, count in (("Quant", 4), ("IntQuant", 4), ("BipolarQuant", 2), ("FloatQuant", 6))
}


@cache
def _form(domain: str, op_type: str, opset: int) -> _Form | None:
    domain = "" if domain in DEFAULT_DOMAINS else domain
    schema = _schema(domain, op_type, opset)
    if schema is None:
        return None
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    attributes = _attributes(schema)
    # An attribute of a later opset has no effect, and is accepted.
    attributes_known = {**_attributes(onnx.defs.get_schema(op_type, domain)), **attributes}
    return _Form(
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        tuple(index for index, formal in enumerate(schema.inputs) if formal.option == single),
        {name: _type_of(attribute) for name, attribute in attributes_known.items()},
        tuple(name for name, attribute in attributes.items() if attribute.required),
        frozenset(name for name, attribute in attributes_known.items() if _defaults_to_zero(attribute)),
        tuple(all(text.startswith("tensor(") for text in formal.types) for formal in schema.outputs),
    )


def _schema(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return the schema of the operator; where the opset lacks it, the next that has it, or the last that had it."""
    if not onnx.defs.has(op_type, domain):
        return None
    for version in (*range(max(opset, 1), onnx.defs.onnx_opset_version() + 1), *range(opset - 1, 0, -1)):
        if onnx.defs.has(op_type, version, domain):
            schema = onnx.defs.get_schema(op_type, version, domain)
            if not schema.deprecated:
                return schema
    return None


def _attributes(schema: onnx.defs.OpSchema) -> dict[str, onnx.defs.OpSchema.Attribute]:
    return dict(schema.attributes)


def _type_of(attribute: onnx.defs.OpSchema.Attribute) -> AttributeType:
    return AttributeType(attribute.type.value)  # pyright: ignore[reportAttributeAccessIssue]


def _defaults_to_zero(attribute: onnx.defs.OpSchema.Attribute) -> bool:
    default = attribute.default_value
    return {onnx.AttributeProto.INT: default.i, onnx.AttributeProto.FLOAT: default.f}.get(default.type) == 0


# The order of nodes: ONNX requires each after those whose results it uses, and inference relies on it.


def require_order(nodes: Iterable[onnx_ir.Node]) -> None:
    """Raise OrderError if one of all nodes of a model uses a result that is made after it."""
    seen: set[onnx_ir.Node] = set()
    for node in nodes:
        for value in node.inputs:
            producer = None if value is None else value.producer()
            if value is not None and producer is not None and producer not in seen:
                raise OrderError(
                    f"{site_of(node)} uses {value.name}, which a later node makes: nodes must be in the order in"
                    " which they run (onnx_ir's TopologicalSortPass sorts them)."
                )
        seen.add(node)


_TEXT = (str, type(None))

DEEPEST_GRAPHS = 33
"""Largest nesting depth of graphs: protobuf reads no file with deeper ones."""

_LEVELS = 100
"""Largest depth of function calls, including the subgraphs around them: walks of a model are recursive."""


@dataclass(frozen=True, slots=True)
class _Around:
    """Context of a graph: its name in errors, the opset imports in force and the functions that it may call."""

    place: str
    imports: Mapping[str, int]
    functions: Mapping[onnx_ir.OperatorIdentifier, onnx_ir.Function]
    flaws: list[Flaw] | None = None
    """Takes what is wrong, if it is to be read all the same; it is raised otherwise."""

    def refuse(self, node: onnx_ir.Node, fault: str) -> None:
        """Keep what is wrong with the node, or raise ModelError."""
        if self.flaws is None:
            raise ModelError(f"{self.place}: {site_of(node)}: {fault}.")
        self.flaws.append(Flaw(site_of(node), fault, node, frozenset(_kinds(node, self.imports))))


def require_sound(model: onnx_ir.Model, place: str, *, sort: bool = False, flaws: list[Flaw] | None = None) -> None:
    """Check the model; `place` names it in errors, as a rule by its path. sort: sort nodes that are out of order.

    flaws: Takes nodes that do not fit their schemas and undefined values, which are then no errors.

    Raises:
        ModelError: A value has no producer, a name is not UTF-8, two inputs share a name, nodes are out of order and
            not to be sorted or form a cycle, or functions call themselves.
    """
    if model.functions:
        require_calls_end(model, place)
    for scope in (model.graph, *model.functions.values()):
        if not _is_in_order(scope, set(), _Around(place, scope.opset_imports, model.functions, flaws)):
            if not sort:
                raise ModelError(
                    f"{place}: nodes of graph {scope.name!r} are out of order; its sort() puts them in order."
                )
            try:
                scope.sort()
            except ValueError:
                raise OrderError(f"{place}: nodes of graph {scope.name!r} form a cycle.") from None


def _is_in_order(scope: Scope, seen: set[onnx_ir.Node], around: _Around, depth: int = 0) -> bool:
    """True if nodes follow those they read from. Raises ModelError for a value that does not exist."""
    in_order, place = True, around.place
    _require_shallow(depth, place)
    _require_names(scope, place)
    for node in scope:
        if not (type(node.name) in _TEXT and type(node.op_type) is str and type(node.domain) is str):
            what = f"{node.name!r} ({node.op_type!r} of domain {node.domain!r})"
            raise ModelError(f"{place}: the name of a node, {what}, is not UTF-8.")
        if not node.op_type:
            raise ModelError(f"{place}: the node {node.name!r} of graph {scope.name!r} names no operator.")
        wrong = nonconformity(node, around.imports, around.functions)
        if wrong is not None:
            around.refuse(node, wrong)
        in_order &= _reads_what_is_there(node, seen, around)
        for attribute in node.attributes.data.values():
            for subgraph in graphs_in(attribute):
                in_order &= _is_in_order(subgraph, seen, around, depth + 1)
        seen.add(node)
        for value in node.outputs:
            if type(value.name) not in _TEXT:
                raise ModelError(f"{place}: the name of a value, {value.name!r}, is not UTF-8.")
            _require_shallow_type(value, place)
            if type(value.type) in _NESTED:
                _require_nested(node, value, around)
    for value in scope.outputs:
        if value.producer() is None and not (value.is_graph_input() or value.is_initializer()):
            fault = f"graph {scope.name!r} does not define its output {value.name!r}"
            if around.flaws is None:
                raise ModelError(f"{place}: {fault}.")
            around.flaws.append(Flaw(Site(scope.name or ""), fault))
    return in_order


def _reads_what_is_there(node: onnx_ir.Node, seen: set[onnx_ir.Node], around: _Around) -> bool:
    """True if the node follows those it reads from. Raises ModelError for a value that does not exist."""
    in_order = True
    for value in node.inputs:
        producer = None if value is None else value.producer()
        if value is None or producer in seen:
            continue
        if producer is not None:
            in_order = False
        elif not (value.is_graph_input() or value.is_initializer()):
            fault = f"reads {value.name!r}, which the model does not define"
            if around.flaws is None:
                raise ModelError(f"{around.place}: {site_of(node)} {fault}.")
            around.flaws.append(Flaw(site_of(node), f"it {fault}"))
    return in_order


def _require_names(scope: Scope, place: str) -> None:
    names: set[str | None] = set()
    if type(scope.name) not in _TEXT:
        raise ModelError(f"{place}: the name of a graph, {scope.name!r}, is not UTF-8.")
    for value in scope.inputs:
        if type(value.name) not in _TEXT:
            raise ModelError(f"{place}: the name of a value, {value.name!r}, is not UTF-8.")
        _require_shallow_type(value, place)
        if value.name in names:
            raise ModelError(f"{place}: graph {scope.name!r} has two inputs of the name {value.name!r}.")
        names.add(value.name)


def _require_shallow(depth: int, place: str) -> None:
    if depth > DEEPEST_GRAPHS:
        raise ModelError(f"{place}: graphs are nested deeper than the {DEEPEST_GRAPHS} levels of a model file.")


def _require_shallow_type(value: onnx_ir.Value, place: str) -> None:
    inner, depth = value.type, 0
    if inner is None or type(inner) is onnx_ir.TensorType:  # as it mostly is
        return
    while isinstance(inner, onnx_ir.SequenceType | onnx_ir.OptionalType):
        inner, depth = inner.elem_type, depth + 1
    if depth > DEEPEST_GRAPHS:
        raise ModelError(f"{place}: the type of {value.name!r} is nested deeper than {DEEPEST_GRAPHS} levels.")


_NESTED = (onnx_ir.SequenceType, onnx_ir.OptionalType)


def _require_nested(node: onnx_ir.Node, value: onnx_ir.Value, around: _Around) -> None:
    """Refuse a sequence or an optional value that a node declares where its operator makes a tensor."""
    if node.op_identifier() in around.functions:
        return
    form = _form(node.domain, node.op_type, _version(around.imports, node.domain))
    index = value.index() or 0
    if form is not None and index < len(form.tensors) and form.tensors[index]:
        kind = "a sequence" if isinstance(value.type, onnx_ir.SequenceType) else "an optional value"
        around.refuse(node, f"{value.name!r} is declared {kind}, but {node.op_type} makes a tensor")


def require_calls_end(model: onnx_ir.Model, place: str) -> None:
    """Raise ModelError for functions that call themselves, and for calls that are nested too deeply."""
    calls = {function: _calls(function, model, place) for function in model.functions.values()}
    levels: dict[onnx_ir.Function, int] = {}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        function: onnx_ir.Function = error.args[1][0]
        raise ModelError(
            f"{place}: function {function.domain}::{function.name} calls itself: recursion is not supported."
        ) from None
    for function in order:
        levels[function] = max((depth + 1 + levels[called] for called, depth in calls[function].items()), default=0)
    for called, depth in _calls(model.graph, model, place).items():
        if depth + 1 + levels[called] > _LEVELS:
            name = f"{called.domain}::{called.name}"
            raise ModelError(
                f"{place}: the call of function {name} leads {depth + 1 + levels[called]} levels deep into calls and"
                f" subgraphs, and at most {_LEVELS} are supported; inline some of the functions."
            )


def _calls(scope: Scope, model: onnx_ir.Model, place: str) -> dict[onnx_ir.Function, int]:
    """Return the functions that the scope calls, each with the number of subgraphs around the deepest call."""
    depths: dict[onnx_ir.Function, int] = {}
    waiting: list[tuple[Scope, int]] = [(scope, 0)]
    while waiting:
        graph, depth = waiting.pop()
        _require_shallow(depth, place)
        for node in graph:
            called = model.functions.get(node.op_identifier())
            if called is not None:
                depths[called] = max(depth, depths.get(called, 0))
            for attribute in node.attributes.data.values():
                waiting += [(subgraph, depth + 1) for subgraph in graphs_in(attribute)]
    return depths


def require_known_opset(model: onnx_ir.Model) -> None:
    """Raise OpsetError if the model, or a function of it, has an invalid or unsupported opset."""
    schemas = onnx.defs.onnx_opset_version()
    for scope in (model.graph, *model.functions.values()):
        opset = opset_of(scope.opset_imports, "") or 0
        if opset < 0:
            raise OpsetError(f"invalid opset {opset} of the model.")
        if opset > NEWEST_OPSET:
            raise OpsetError(f"unsupported opset {opset} of the model; the newest supported is {NEWEST_OPSET}.")
        if opset > schemas:
            limit = f"the installed onnx {onnx.__version__} supports opsets up to {schemas}; install a newer onnx"
            raise OpsetError(f"unsupported opset {opset} of the model: {limit}.")
