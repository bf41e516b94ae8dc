"""Casts across If, Loop and Scan: joined values may be joined in another type.

Three rewrites of a joint (`castsmith.passes.place.sizes`), all exact for casts that the standard fixes:

  after    every joined value ends in the same cast a -> b, or is a constant that a holds: they are joined as a, and
           cast where they are used. Done if that saves casts: two branches have one cast after them; a
           state that is used through casts which undo its own needs none; stacked results become narrower.
  before   all users read b through the same cast b -> c: the values are cast before they are joined. Done if one of
           one of them ends in a cast that this one absorbs.
  around   every joined value comes, by moves and further joints, from the same cast a -> b or from constants that a
           holds: all of them are a. Done if that saves casts, since users undo the cast.

    y = If (c) <then = { t = Cast <to = float> (p) }, else = { e = Cast <to = float> (q) }>
becomes
    h = If (c) <then = { p }, else = { q }>
    y = Cast <to = float> (h)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_node, constant_tensor, constant_types, new_constant, use_count
from castsmith.ir.inference import Inference
from castsmith.ir.naming import Namer
from castsmith.ir.ops import FLOW, CastNode, actual_outputs, cast_node, chain_verdict, opset_of, set_element_type
from castsmith.ir.records import NodeItem, Rewrite, Site
from castsmith.ir.rewriting import become_output, name_node
from castsmith.ir.targets import Target, takes_operator, takes_type
from castsmith.ir.text import node_items, site_of
from castsmith.numerics.cast import cast, policy_for
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.place.chains import is_fixed
from castsmith.passes.place.movable import ORDER, data_inputs
from castsmith.passes.place.regions import survives_in
from castsmith.passes.place.sizes import Joint, Source, joints
from castsmith.passes.simplify import cast_before

NAME = "place-casts"


@dataclass(frozen=True)
class Flow:
    """Facts that a rewrite of a joint needs, and changes."""

    inference: Inference
    namer: Namer
    opset: int
    target: Target | None

    def shown(self, nodes: Iterable[onnx_ir.Node]) -> list[NodeItem]:
        """Return the nodes in the form of a record."""
        return node_items(nodes, self.inference.types)

    def takes(self, joint: Joint, dtype: DataType) -> bool:
        """True if values of the type can be joined there, by the schema and by the kernels of the target."""
        key = ("", joint.node.op_type, self.opset)
        formals = actual_outputs(key, len(joint.node.outputs))
        allowed = all(formal is not None and dtype in formal.allowed for formal in formals)
        return allowed and takes_operator(joint.node.op_type, dtype, self.opset, self.target)

    def cast_of(self, value: onnx_ir.Value | None) -> tuple[onnx_ir.Value, DataType, CastNode] | None:
        """Return the Cast that makes the value, if the standard fixes it for all of its operand's values."""
        producer = None if value is None else value.producer()
        step = cast_before(value, self.inference) if producer is not None and producer.op_type == "Cast" else None
        return step if step is not None and is_fixed(step[1], step[2], self.opset) else None

    def same(self, lhs: CastNode, rhs: CastNode) -> bool:
        """True if two casts are equal; settings that the target type ignores do not count."""
        return lhs.to == rhs.to and self._policy(lhs) == self._policy(rhs)

    def _policy(self, step: CastNode) -> object:
        return policy_for(step.target, saturate=step.saturate, round_mode=step.round_mode, opset=self.opset)

    def retype(self, value: onnx_ir.Value, dtype: DataType) -> None:
        set_element_type(value, dtype)
        self.inference.types[value] = dtype

    def new_cast(self, value: onnx_ir.Value, step: CastNode) -> onnx_ir.Node:
        made = cast_node(value, step.target, saturate=step.saturate, round_mode=step.round_mode)
        name_node(made, self.namer)
        self.inference.types[made.outputs[0]] = step.target
        return made


def cross(
    node: onnx_ir.Node,
    inference: Inference,
    imports: Mapping[str, int],
    held: Mapping[onnx_ir.Graph, onnx_ir.Node],
    namer: Namer,
    target: Target | None,
) -> Iterator[Rewrite]:
    """Rewrite the joints of the node that gain by it; `held` is the node that holds each subgraph."""
    flow = Flow(inference, namer, opset_of(imports, "") or 1, target)
    for joint in joints(node, imports):
        yield from _around([joint], flow, imports, held)
    together = [joint for joint in joints(node, imports) if _area_of([joint], flow, imports, held) is not None]
    if len(together) > 1:
        yield from _around(together, flow, imports, held)
    for joint in joints(node, imports):
        yield from _after(joint, flow)
        yield from _before(joint, flow)


_MOST_VALUES = 64
"""Largest number of values that change their type together."""


@dataclass
class _Area:
    """Values of one type that moves and joints make of each other, and where they come from.

    Attributes:
        feeds: The sources of each value.
        casts: The sources that are results of the cast a -> b, with its operands.
        constants: The sources that are constants.
        step: Type a, and the cast.
    """

    feeds: dict[onnx_ir.Value, tuple[Source, ...]] = field(default_factory=dict[onnx_ir.Value, tuple[Source, ...]])
    casts: dict[Source, onnx_ir.Value] = field(default_factory=dict[Source, onnx_ir.Value])
    constants: dict[Source, None] = field(default_factory=dict[Source, None])
    step: tuple[DataType, CastNode] | None = None

    def covers(self, user: onnx_ir.Node | onnx_ir.Graph, index: int) -> bool:
        return any(Source(user, index) in sources for sources in self._by_place.get(user, ()))

    @cached_property
    def _by_place(self) -> dict[object, list[tuple[Source, ...]]]:
        found: dict[object, list[tuple[Source, ...]]] = {}
        for sources in self.feeds.values():
            for place in {source.place for source in sources}:
                found.setdefault(place, []).append(sources)
        return found

    def other_uses(self, value: onnx_ir.Value) -> list[onnx_ir.Node]:
        """Return the users that are not values of the area."""
        return [user for user, index in value.uses() if not self.covers(user, index)]

    def is_output(self, value: onnx_ir.Value) -> bool:
        """True if the value is an output of a graph by which it does not stay in the area."""
        graph = value.graph
        if graph is None or not value.is_graph_output():
            return False
        return any(output is value and not self.covers(graph, index) for index, output in enumerate(graph.outputs))


def _around(
    met: Sequence[Joint], flow: Flow, imports: Mapping[str, int], held: Mapping[onnx_ir.Graph, onnx_ir.Node]
) -> Iterator[Rewrite]:
    """Join the values as they were before the casts from which moves bring them."""
    area, joint = _area_of(met, flow, imports, held), met[0]
    if area is None or area.step is None or not (area.feeds.keys() - {joint.outside, joint.inside}):
        return  # without moves and further joints, this is what `_after` does
    a, meaning = area.step
    undone = {value: _undoing(value, a, meaning, flow, own_output=True) for value in area.feeds}
    left = [v for v in area.feeds if area.is_output(v) or len(undone[v]) < len(area.other_uses(v))]
    entering = [value for source in area.casts if (value := source.value) is not None]
    emptied = [v for v in dict.fromkeys(entering) if use_count(v) + v.is_graph_output() == entering.count(v)]
    gone = len(emptied) + sum(map(len, undone.values()))
    if len(left) >= gone or any(value.producer() is None for value in left):
        return
    makers = [made for value in entering if (made := value.producer()) is not None]
    before = (
        site_of(joint.node),
        flow.shown(dict.fromkeys([joint.node, *makers, *(user for users in undone.values() for user in users)])),
    )
    made = [_cast_others(value, area, set(undone[value]), meaning, flow) for value in left]
    for source in area.constants:
        source.give(_converted(source, a, flow))
    for (source, origin), old in zip(area.casts.items(), entering, strict=True):
        _give(source, origin if _can_come_in(source, origin) else _passed_on(source, origin, a, flow), flow)
        _drop_cast(old)
    for value in area.feeds:
        _take_over(value, flow, undone[value])
        flow.retype(value, a)
    yield _record(joint, flow, before, made, gone, f"the values are moved and joined as {type_name(a)}")


def _area_of(
    met: Sequence[Joint], flow: Flow, imports: Mapping[str, int], held: Mapping[onnx_ir.Graph, onnx_ir.Node]
) -> _Area | None:
    """Return the values from which moves and joints make those met, if they come from one cast and from constants."""
    area, open_values, b = _Area(), [joint.outside for joint in met], flow.inference.type_of(met[0].outside)
    while open_values:
        value = open_values.pop()
        if value in area.feeds:
            continue
        found = _feeds(value, imports, held)
        if found is None or len(area.feeds) == _MOST_VALUES or flow.inference.type_of(value) != b:
            return None
        area.feeds[value], siblings = found
        open_values += siblings
        for source in area.feeds[value]:
            entering, step = source.value, flow.cast_of(source.value)
            if entering is None:
                return None
            if constant_tensor(entering) is not None:
                area.constants[source] = None
            elif step is None or (area.step is not None and not _is_step(step, area.step, flow)):
                open_values.append(entering)
            elif not (_can_come_in(source, step[0]) or takes_operator("Identity", step[1], flow.opset, flow.target)):
                return None
            else:
                area.step = step[1], step[2]
                area.casts[source] = step[0]
    return area if area.step is not None and _takes_all(area, area.step[0], flow, imports, held) else None


def _passed_on(source: Source, value: onnx_ir.Value, dtype: DataType, flow: Flow) -> onnx_ir.Value:
    """Return the result of an Identity of the value in the subgraph of which it becomes an output."""
    name = flow.namer.fresh("castsmith_Identity")
    made = onnx_ir.node("Identity", [value], name=name)
    made.outputs[0].name, made.outputs[0].shape = flow.namer.fresh(f"{value.name}_out"), value.shape
    flow.retype(made.outputs[0], dtype)
    if isinstance(source.place, onnx_ir.Graph):
        source.place.append(made)
    return made.outputs[0]


def _is_step(found: tuple[onnx_ir.Value, DataType, CastNode], step: tuple[DataType, CastNode], flow: Flow) -> bool:
    return found[1] == step[0] and flow.same(found[2], step[1])


def _feeds(
    value: onnx_ir.Value, imports: Mapping[str, int], held: Mapping[onnx_ir.Graph, onnx_ir.Node]
) -> tuple[tuple[Source, ...], list[onnx_ir.Value]] | None:
    """Return the sources of a value that a joint or a move makes, and the values that have its type with it."""
    node = value.producer()
    if node is None:
        node = held.get(value.graph) if isinstance(value.graph, onnx_ir.Graph) else None
        if node is None or value.is_initializer():
            return None
    elif node.op_type not in FLOW:
        indexes = None if node.op_type in ORDER else data_inputs(node)
        return None if indexes is None else (tuple(Source(node, index) for index in indexes), [*node.outputs])
    for joint in joints(node, imports):
        if joint.outside is value or joint.inside is value:
            return joint.sources, [each for each in (joint.outside, joint.inside) if each is not None]
    scanned = node.op_type == "Scan" and value.producer() is None and any(True for _ in joints(node, imports))
    if not scanned or not isinstance(value.graph, onnx_ir.Graph):
        return None
    return tuple(Source(node, index) for index, each in enumerate(value.graph.inputs) if each is value), []


def _takes_all(
    area: _Area, a: DataType, flow: Flow, imports: Mapping[str, int], held: Mapping[onnx_ir.Graph, onnx_ir.Node]
) -> bool:
    """True if all moves and joints of the area take type `a`, and the constants fit it."""
    for value, sources in area.feeds.items():
        node = value.producer() or (held[value.graph] if isinstance(value.graph, onnx_ir.Graph) else None)
        if node is None or node.op_type in FLOW:
            if node is None or not all(flow.takes(each, a) for each in joints(node, imports)):
                return False
        elif not all(takes_type(node, source.index, a, imports, flow.target) for source in sources):
            return False
    return all(_constant_fits(source.value, a, flow) for source in area.constants)


def _cast_others(
    value: onnx_ir.Value, area: _Area, apart: set[onnx_ir.Node], meaning: CastNode, flow: Flow
) -> onnx_ir.Node:
    """Add one cast of the value for the users outside the area, except those in `apart`, and for a graph output."""
    node, is_output = present(value.producer(), "the producer"), area.is_output(value)
    uses = [(user, index) for user, index in value.uses() if not area.covers(user, index) and user not in apart]
    made = flow.new_cast(value, meaning)
    for user, index in uses:
        user.replace_input_with(index, made.outputs[0])
    node.append(made)
    if is_output:
        graph = present(node.graph, "the graph of the value")
        become_output(graph, value, made.outputs[0], flow.namer, f"{value.name}_met")
    return made


def _after(joint: Joint, flow: Flow) -> Iterator[Rewrite]:
    """Join the values as they were before their casts."""
    found = [flow.cast_of(source.value) for source in joint.sources]
    step = next((each for each in found if each is not None), None)
    if step is None or (joint.outside.is_graph_output() and joint.node.graph is None):
        return
    _, a, meaning = step
    if not flow.takes(joint, a):
        return
    for source, each in zip(joint.sources, found, strict=True):
        if each is None:
            if not _constant_fits(source.value, a, flow):
                return
        elif each[1] != a or not flow.same(each[2], meaning) or not _can_come_in(source, each[0]):
            return
    if not _gains_after(joint, found, a, meaning, flow):
        return
    makers = (made for source in joint.sources if (made := _producer(source.value)) is not None)
    before = site_of(joint.node), flow.shown([joint.node, *makers])
    for source, each in zip(joint.sources, found, strict=True):
        old = source.value
        _give(source, each[0] if each is not None else _converted(source, a, flow), flow)
        _drop_cast(old)
    swallowed, made = 0, list[onnx_ir.Node | None]()
    for value in (joint.inside, joint.outside):
        if value is not None:
            undone = _undoing(value, a, meaning, flow)
            made.append(_cast_users(value, undone, meaning, joint, flow))
            _take_over(value, flow, undone)
            swallowed += len(undone)
    for value in (joint.inside, joint.outside):
        if value is not None:
            flow.retype(value, a)
    casts = [each for each in made if each is not None]
    count = swallowed + sum(each is not None for each in found)
    yield _record(joint, flow, before, casts, count, f"the values are joined as {type_name(a)}, and cast afterwards")


def _gains_after(
    joint: Joint,
    found: list[tuple[onnx_ir.Value, DataType, CastNode] | None],
    a: DataType,
    meaning: CastNode,
    flow: Flow,
) -> bool:
    """True if there are fewer casts afterwards, or as many of which one is of a single iteration's result."""
    gone = sum(each is not None and _serves_once(source) for source, each in zip(joint.sources, found, strict=True))
    made = 0
    for value in (joint.inside, joint.outside):
        if value is not None:
            undone = len(_undoing(value, a, meaning, flow))
            gone += undone
            made += undone < use_count(value) or value.is_graph_output()
    if joint.inside is not None and not _all_swallowed(joint.inside, a, meaning, flow):
        return False
    return made < gone or (joint.stacked and made == gone and a.itemsize < meaning.target.itemsize)


def _serves_once(source: Source) -> bool:
    """True if the joined value has no other use, so that its cast can be removed."""
    value = source.value
    if value is None:
        return False
    outputs = sum(output is value for output in value.graph.outputs) if value.graph is not None else 0
    return use_count(value) + outputs == 1


def _before(joint: Joint, flow: Flow) -> Iterator[Rewrite]:
    """Cast the values before they are joined."""
    step = _common_use(joint, flow)
    b = flow.inference.type_of(joint.outside)
    if step is None or b is None or step.to is None or not flow.takes(joint, step.to):
        return
    found = [flow.cast_of(source.value) for source in joint.sources]
    swallowed = [
        each is not None
        and bool(chain_verdict(each[1], each[2], step, flow.opset))
        and (each[1] != step.to or _can_come_in(source, each[0]))
        for source, each in zip(joint.sources, found, strict=True)
    ]
    casts = [user for value in (joint.inside, joint.outside) if value is not None for user, _ in value.uses()]
    gone, fresh = len(casts), 0
    for source, each, yes in zip(joint.sources, found, swallowed, strict=True):
        gone += yes and _serves_once(source)
        free = constant_tensor(source.value) is not None  # it is cast at optimization time
        fresh += not (free or (yes and each is not None and each[1] == step.to))
    if fresh > gone or (fresh == gone and not (joint.stacked and step.to.itemsize < b.itemsize)):
        return
    before = site_of(joint.node), flow.shown([joint.node, *casts])
    made: list[onnx_ir.Node] = []
    for source, each, gone in zip(joint.sources, found, swallowed, strict=True):
        made += _cast_source(source, each[0] if each is not None and gone else None, step, flow)
    for value in (joint.inside, joint.outside):
        if value is not None:
            _take_over(value, flow, [user for user, _ in value.uses()])
            flow.retype(value, step.to)
    count = len(casts) + sum(swallowed)
    yield _record(
        joint, flow, before, made, count, f"the values are cast to {type_name(step.to)} before they are joined"
    )


def _common_use(joint: Joint, flow: Flow) -> CastNode | None:
    """Return the one cast through which all users read the joint."""
    common: CastNode | None = None
    for value in (joint.inside, joint.outside):
        if value is None:
            continue
        outputs = 0
        for user, _ in value.uses():
            step = flow.cast_of(user.outputs[0]) if user.op_type == "Cast" else None
            if step is None or (common is not None and not flow.same(step[2], common)):
                return None
            common, outputs = step[2], outputs + user.outputs[0].is_graph_output()
            if user.graph is not (joint.body if value is joint.inside else joint.node.graph):
                return None
        if value.is_graph_output() or outputs > (value is joint.outside):
            return None
    return common


def _all_swallowed(value: onnx_ir.Value, a: DataType, meaning: CastNode, flow: Flow) -> bool:
    """True if all users cast the value, so that the preceding cast from `a` does not count."""
    steps = [flow.cast_of(user.outputs[0]) if user.op_type == "Cast" else None for user, _ in value.uses()]
    return not value.is_graph_output() and all(
        step is not None and chain_verdict(a, meaning, step[2], flow.opset) for step in steps
    )


def _can_come_in(source: Source, value: onnx_ir.Value) -> bool:
    """True if the value can be the output of the subgraph: made in it, and not yet an output."""
    if isinstance(source.place, onnx_ir.Node):
        return True
    producer = value.producer()
    return producer is not None and producer.graph is source.place and not value.is_graph_output()


def _constant_fits(value: onnx_ir.Value | None, dtype: DataType, flow: Flow) -> bool:
    tensor = constant_tensor(value)
    return tensor is not None and dtype in constant_types(flow.opset) and survives_in(tensor, dtype, flow.opset)


def _converted(source: Source, dtype: DataType, flow: Flow) -> onnx_ir.Value:
    """Return the joined constant in another type, in the scope where it is used."""
    value, tensor = source.value, constant_tensor(source.value)
    value = present(value, "the value")
    tensor = present(tensor, "the tensor of the constant")
    array = cast(tensor.numpy(), dtype, opset=flow.opset)
    name = flow.namer.fresh(f"{value.name}_{type_name(dtype)}")
    made = new_constant(name, onnx_ir.tensor(array, dtype=dtype, name=name))
    flow.inference.types[made] = dtype
    if isinstance(source.place, onnx_ir.Graph):
        source.place.append(constant_node(made))
    else:
        source.place.prepend(constant_node(made))
    return made


def _cast_source(source: Source, origin: onnx_ir.Value | None, step: CastNode, flow: Flow) -> list[onnx_ir.Node]:
    """Cast the joined value; from `origin`, if the cast that makes it does not count."""
    old = source.value
    old = present(old, "the value")
    base = old if origin is None else origin
    if flow.inference.type_of(base) == step.to:
        _give(source, base, flow)
        _drop_cast(old)
        return []
    made = flow.new_cast(base, step)
    if isinstance(source.place, onnx_ir.Graph):
        source.place.append(made)
    else:
        source.place.prepend(made)
    _give(source, made.outputs[0], flow)
    _drop_cast(old)
    return [made]


def _cast_users(
    value: onnx_ir.Value, apart: list[onnx_ir.Node], meaning: CastNode, joint: Joint, flow: Flow
) -> onnx_ir.Node | None:
    """Add one cast of the value for all users, except those in `apart`."""
    gone, is_output = set(apart), value.is_graph_output()
    uses = [use for use in value.uses() if use[0] not in gone]
    if not uses and not is_output:
        return None
    made = flow.new_cast(value, meaning)
    result = made.outputs[0]
    for user, index in uses:
        user.replace_input_with(index, result)
    if value is joint.outside:
        joint.node.append(made)
    else:
        body = present(joint.body, "the body of the loop")
        first = next(iter(body), None)
        body.append(made) if first is None else first.prepend(made)
    if is_output:
        graph = joint.node.graph if value is joint.outside else joint.body
        graph = present(graph, "the graph of the value")
        become_output(graph, value, result, flow.namer, f"{value.name}_met")
    return made


def _give(source: Source, value: onnx_ir.Value, flow: Flow) -> None:
    """Join another value; the output of a subgraph gets its declared type."""
    old, dtype = source.value, flow.inference.type_of(value)
    source.give(value)
    if isinstance(source.place, onnx_ir.Graph) and dtype is not None:
        flow.retype(value, dtype)
        value.shape = value.shape or (None if old is None else old.shape)


def _undoing(
    value: onnx_ir.Value, a: DataType, meaning: CastNode, flow: Flow, *, own_output: bool = False
) -> list[onnx_ir.Node]:
    """Return the casts of the value back to `a` that give the value before the cast `a` -> b.

    Args:
        own_output: Count a cast that is an output of the graph that has the value, which then can be the output.
    """
    users = [user for user, _ in value.uses() if user.op_type == "Cast"]
    outputs = [user for user in users if user.outputs[0].is_graph_output()]
    producer = value.producer()
    fits = own_output and len(outputs) == 1 and producer is not None and not value.is_graph_output()
    kept = [] if fits and producer is not None and outputs[0].graph is producer.graph else outputs
    users = [user for user in users if user not in kept]
    steps = [(user, flow.cast_of(user.outputs[0])) for user in users]
    return [
        user
        for user, step in steps
        if step is not None and step[2].to == a and chain_verdict(a, meaning, step[2], flow.opset)
    ]


def _take_over(value: onnx_ir.Value, flow: Flow, casts: list[onnx_ir.Node]) -> None:
    """Replace casts of the value, which is already cast, by the value."""
    for user in casts:
        result, graph = user.outputs[0], user.graph
        graph = present(graph, "the graph of the value")
        for other, index in list(result.uses()):
            other.replace_input_with(index, value)
        if result.is_graph_output():
            become_output(graph, result, value, flow.namer, f"{result.name}_cast")
        flow.namer.release(user.name)
        flow.namer.release(result.name)
        graph.remove(user, safe=True)


def _drop_cast(value: onnx_ir.Value | None) -> None:
    """Remove an unused Cast."""
    producer = _producer(value)
    if value is None or producer is None or producer.op_type not in ("Cast", "Constant"):
        return
    if producer.graph is not None and not value.uses() and not value.is_graph_output():
        producer.graph.remove(producer, safe=True)


def _producer(value: onnx_ir.Value | None) -> onnx_ir.Node | None:
    return None if value is None else value.producer()


def _record(
    joint: Joint,
    flow: Flow,
    before: tuple[Site, Sequence[NodeItem]],
    new: list[onnx_ir.Node],
    old: int,
    reason: str,
) -> Rewrite:
    site, items = before
    reason = f"{reason}; casts: {len(new)} instead of {old}"
    return Rewrite(NAME, NAME, site, items, flow.shown([joint.node, *new]), reason)
