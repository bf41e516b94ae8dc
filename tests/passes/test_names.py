"""Names that a pass would make are taken already: what it makes gets others, and no two nodes or values share one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import onnx_ir
import pytest

from castsmith.ir.io.loading import from_proto
from castsmith.ir.walks import all_nodes, all_values
from castsmith.lowering.registry import make_pass
from tests.passes.precision.models import TEXTS, model as precise_model
from tests.passes.test_nested import CASES, PASSES, rules
from tests.sampling import sampled

BOOL = onnx_ir.TensorType(onnx_ir.DataType.BOOL)


def named(model: onnx_ir.Model) -> tuple[list[str], list[str]]:
    """Return the names of nodes, and of values."""
    functions = {node for function in model.functions.values() for node in function.all_nodes()}
    nodes = [node for node in all_nodes(model) if node not in functions]
    values = {value for value in all_values(model) if value.producer() not in functions}
    values -= {value for function in model.functions.values() for value in function.inputs}
    values -= {value for function in model.functions.values() for each in function.subgraphs() for value in each.inputs}
    return [node.name for node in nodes if node.name], [value.name for value in values if value.name]


def inverted(names: list[str], nodes: list[str], read: onnx_ir.Value) -> Iterator[onnx_ir.Node]:
    """Yield nodes with these names, whose results have these names."""
    for index in range(max(len(names), len(nodes))):
        node = onnx_ir.node("Not", [read], name=nodes[index] if index < len(nodes) else None)
        node.outputs[0].name = names[index] if index < len(names) else f"spare_{index}"
        node.outputs[0].type, node.outputs[0].shape = BOOL, onnx_ir.Shape([])
        yield node


def take(model: onnx_ir.Model, values: list[str], nodes: list[str], *, inside: bool) -> None:
    """Take the names in the graph; `inside`: in the body of a Loop, half of the values as its inputs."""
    flag = onnx_ir.Value(name="taken", type=BOOL, shape=onnx_ir.Shape([]))
    model.graph.inputs.append(flag)
    if not inside:
        made = list(inverted(values, nodes, flag))
        model.graph.extend(made)
        model.graph.outputs.extend(node.outputs[0] for node in made)
        return
    turn = onnx_ir.Value(name="taken_turn", type=onnx_ir.TensorType(onnx_ir.DataType.INT64), shape=onnx_ir.Shape([]))
    again = onnx_ir.Value(name="taken_again", type=BOOL, shape=onnx_ir.Shape([]))
    ins = [onnx_ir.Value(name=name, type=BOOL, shape=onnx_ir.Shape([])) for name in values[::2]]
    made = list(inverted(values[1::2] + [f"spare_end_{i}" for i in range(len(ins))], nodes, again))
    ends = [node.outputs[0] for node in made[: len(ins) + 1]]
    body = onnx_ir.Graph([turn, again, *ins], ends, nodes=made, name="taken_body")
    loop = onnx_ir.node(
        "Loop", [None, flag, *[flag] * len(ins)], {"body": body}, num_outputs=max(len(ins), 1), name="taken_loop"
    )
    for index, output in enumerate(loop.outputs):
        output.name, output.type, output.shape = f"taken_{index}", BOOL, onnx_ir.Shape([])
    model.graph.append(loop)
    model.graph.outputs.extend(loop.outputs)


def require_apart(model: onnx_ir.Model, key: str) -> None:
    nodes, values = named(model)
    assert [name for name, count in Counter(nodes).items() if count > 1] == [], key
    assert [name for name, count in Counter(values).items() if count > 1] == [], key


def new_names(before: onnx_ir.Model, after: onnx_ir.Model) -> tuple[list[str], list[str]]:
    old_nodes, old_values = named(before)
    nodes, values = named(after)
    return sorted(set(values) - set(old_values)), sorted(set(nodes) - set(old_nodes))


@pytest.mark.parametrize("name", PASSES)
def test_golden_cases_whose_names_are_taken(name: str) -> None:
    met = 0
    for number, (key, case) in enumerate(CASES.items()):
        if not key.startswith(f"{name}/"):
            continue
        plain = case.model()
        found = rules(case, plain)
        values, nodes = new_names(case.model(), plain)
        if not values and not nodes:
            continue
        taken = case.model()
        inside = bool(number % 2) and taken.opset_imports[""] >= 11 and len(values) > 1
        take(taken, values, nodes, inside=inside)
        require_apart(taken, key)
        assert rules(case, taken) == found, key
        require_apart(taken, key)
        assert set(values) <= set(named(taken)[1]), key
        met += 1
    assert met > 1


def test_conversions_whose_names_are_taken() -> None:
    specs = ("convert-precision", "convert-precision{to=float16 io=y}")
    cases = product(specs, (name for name in TEXTS if name != "sequence output"))
    for spec, name in sampled("conversions whose names are taken", cases, 100, cover=enumerate):
        before, plain, taken = (from_proto(precise_model(name)) for _ in range(3))
        found = make_pass(spec, {})(plain)
        values, nodes = new_names(before, plain)
        take(taken, values, nodes, inside=False)
        again = make_pass(spec, {})(taken)
        assert found.modified == again.modified, name
        require_apart(taken, name)
