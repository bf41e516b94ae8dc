"""Large models: linear work, each constant once, and no memory for what is refused."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.constants import new_constant
from castsmith.ir.ops import moves as fold_moves
from castsmith.ir.records import RewriteResult
from castsmith.passes.fold import conversions as fold_conversions, values as fold_values
from castsmith.passes.fold.run import FoldConstants
from tests.sampling import shortened

F32, F16, F64 = int(DataType.FLOAT), int(DataType.FLOAT16), int(DataType.DOUBLE)


def _graph(nodes: list[onnx_ir.Node], constants: list[onnx_ir.Value]) -> onnx_ir.Model:
    """A model whose one output is that of the last node."""
    for index, node in enumerate(nodes):
        node.outputs[0].name = f"v{index}"
    graph = onnx_ir.Graph([], [nodes[-1].outputs[0]], nodes=nodes, initializers=constants, opset_imports={"": 21})
    return onnx_ir.Model(graph, ir_version=10)


def _weight(*numbers: float, name: str = "w") -> onnx_ir.Value:
    return new_constant(name, onnx_ir.tensor(np.array(numbers, np.float32)))


def _cast(value: onnx_ir.Value, to: int) -> onnx_ir.Node:
    return onnx_ir.node("Cast", [value], {"to": to})


def _uses(casts: list[onnx_ir.Node]) -> list[onnx_ir.Node]:
    return [onnx_ir.node("Sqrt", [node.outputs[0]]) for node in casts]


def chain_of_casts(count: int) -> onnx_ir.Model:
    weight, nodes = _weight(1, 2), list[onnx_ir.Node]()
    for index in range(count):
        nodes.append(_cast(nodes[-1].outputs[0] if nodes else weight, (F16, F32)[index % 2]))
    return _graph(nodes, [weight])


def casts_of_one(count: int) -> onnx_ir.Model:
    weight = _weight(1, 2)
    casts = [_cast(weight, F16) for _ in range(count)]
    return _graph([*casts, *_uses(casts)], [weight])


def casts_of_many(count: int) -> onnx_ir.Model:
    weights = [_weight(index, name=f"w{index}") for index in range(count)]
    casts = [_cast(weight, F16) for weight in weights]
    return _graph([*casts, *_uses(casts)], weights)


def long_way_to_a_cast(count: int) -> onnx_ir.Model:
    weight, nodes = new_constant("w", onnx_ir.tensor(np.ones((2, 3), np.float32))), list[onnx_ir.Node]()
    for _ in range(count):
        nodes.append(onnx_ir.node("Transpose", [nodes[-1].outputs[0] if nodes else weight]))
    return _graph([*nodes, _cast(nodes[-1].outputs[0], F16)], [weight])


def casts_along_the_way(count: int) -> onnx_ir.Model:
    """A chain of moves with a cast beside each."""
    value = weight = new_constant("w", onnx_ir.tensor(np.ones((2, 3), np.float32)))
    nodes, casts = list[onnx_ir.Node](), list[onnx_ir.Node]()
    for _ in range(count):
        nodes += [onnx_ir.node("Transpose", [value])]
        value = nodes[-1].outputs[0]
        casts += [_cast(value, F16)]
    return _graph([*nodes, *casts, *_uses(casts)], [weight])


def refused_casts(count: int) -> onnx_ir.Model:
    """Casts that the standard does not define, of one constant."""
    weight = _weight(3e9, 1)
    casts = [_cast(weight, int(DataType.INT32)) for _ in range(count)]
    return _graph([*casts, *_uses(casts)], [weight])


BUILDERS = [chain_of_casts, casts_of_one, casts_of_many, long_way_to_a_cast, casts_along_the_way, refused_casts]


def work(build: Callable[[int], onnx_ir.Model], count: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return the number of calls of expensive functions."""
    calls = Counter[str]()

    def counted(module: Any, name: str) -> None:
        original = getattr(module, name)

        def count_and_call(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, count_and_call)

    with monkeypatch.context():
        for module, name in [
            (fold_conversions, "cast"),
            (fold_conversions, "status_reason"),
            (fold_values, "move"),
            (fold_values, "moves_of"),
            (fold_values, "constant_tensor"),
        ]:
            counted(module, name)
        FoldConstants()(build(count))
    monkeypatch.undo()
    return calls


@pytest.mark.parametrize("build", BUILDERS)
def test_work_grows_in_proportion(build: Callable[[int], onnx_ir.Model], monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = work(build, 100, monkeypatch), work(build, 800, monkeypatch)
    for name, count in large.items():
        assert count <= 9 * small[name] + 10, name


MANY = shortened("nodes of the largest models to fold", 20_000, 1_200)
"""More than Python calls may be nested."""


@pytest.mark.parametrize("build", BUILDERS)
def test_many_nodes(build: Callable[[int], onnx_ir.Model]) -> None:
    model = build(MANY)
    result = FoldConstants()(model)
    assert isinstance(result, RewriteResult)
    assert any(node.op_type == "Cast" for node in model.graph) == (build is refused_casts)
    each_its_own = build in (casts_of_many, casts_along_the_way)
    assert len(model.graph.initializers) == (MANY if each_its_own else 1)


def _refused(model: onnx_ir.Model) -> tuple[list[str], int]:
    """The reasons for which nothing is folded, and the peak of the memory taken to find them."""
    FoldConstants()(chain_of_casts(2))  # what is made once in a process
    tracemalloc.start()
    result = FoldConstants()(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(result, RewriteResult)
    assert not result.records.rewrites
    return [refusal.rule for refusal in result.records.refusals], peak


HUGE = {
    "ConstantOfShape": "a = ConstantOfShape (s) y = Cast <to = 10> (a)",
    "Expand": "a = Expand (w, s) y = Cast <to = 10> (a)",
    "Concat": "a = Expand (w, s) b = Concat <axis = 0> (a, a) y = Cast <to = 10> (b)",
    "Gather": "a = Expand (w, s) b = Expand (i, s) c = Gather (w, b) y = Cast <to = 10> (c)",
    "copied on the way": "a = Expand (w, s) b = Reshape (a, flat) c = Slice (b, i, flat) y = Cast <to = 10> (c)",
    "as a parameter": "a = Expand (i, s) y0 = Reshape (w, a) y = Cast <to = 10> (y0)",
}


@pytest.mark.parametrize("body", HUGE.values(), ids=HUGE)
def test_nothing_is_allocated_for_what_is_refused(body: str) -> None:
    constants = "float[1] w = {1}, int64[1] i = {0}, int64[1] flat = {-1}, int64[2] s = {1000000, 1000000}"
    text = f'<ir_version: 10, opset_import: ["": 21]> g () => (float16[N] y) <{constants}> {{ {body} }}'
    rules, peak = _refused(onnx_ir.from_onnx_text(text))
    assert rules in (["fold-growth"], ["fold-invalid"]) or (not rules and "y0" in body)
    assert peak < 1 << 20


def _fail(_tensor: onnx_ir.ExternalTensor) -> np.ndarray:
    pytest.fail("the data is read")


def test_external_data_is_not_read_where_the_budget_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = new_constant("w", onnx_ir.tensor(np.zeros(1 << 16, np.float32)))
    castsmith.save(_graph([_cast(weight, F64)], [weight]), tmp_path / "m.onnx", external_data="m.data")
    model = castsmith.load(tmp_path / "m.onnx")
    assert isinstance(model.graph.initializers["w"].const_value, onnx_ir.ExternalTensor)
    monkeypatch.setattr(onnx_ir.ExternalTensor, "numpy", _fail)
    assert _refused(model)[0] == ["fold-growth"]


def test_external_data_folds(tmp_path: Path) -> None:
    weight = new_constant("w", onnx_ir.tensor(np.arange(1 << 10, dtype=np.float32)))
    castsmith.save(_graph([_cast(weight, F16)], [weight]), tmp_path / "m.onnx", external_data="m.data")
    model = castsmith.load(tmp_path / "m.onnx")
    FoldConstants()(model)
    (constant,) = model.graph.initializers.values()
    assert constant.const_value is not None
    assert constant.const_value.numpy().tolist() == list(range(1 << 10))


@pytest.mark.parametrize(("count", "made"), [(1024, 1), (1025, 2)])
@pytest.mark.parametrize("view", [True, False])
def test_small_arrays_and_views_are_kept_for_the_next_conversion(
    view: bool, count: int, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a moved array of more than 4096 bytes only a view takes no memory."""
    moves = Counter[str]()

    def counted(step: fold_values.Move, arrays: list[Any]) -> Any:
        moves["made"] += 1
        return fold_moves.move(step, arrays)

    monkeypatch.setattr(fold_values, "move", counted)
    weight = new_constant("w", onnx_ir.tensor(np.ones((1, count), np.float32)))
    moved = onnx_ir.node("Transpose" if view else "Concat", [weight], {} if view else {"axis": 0})
    casts = [_cast(moved.outputs[0], to) for to in (F16, int(DataType.BFLOAT16))]
    FoldConstants()(_graph([moved, *casts, *_uses(casts)], [weight]))
    assert moves["made"] == (1 if view else made)
