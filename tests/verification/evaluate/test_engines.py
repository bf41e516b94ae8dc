"""The engine of a comparison, with processes that do as they are told: which runs a node, and what stands in for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import pytest

from castsmith.verification.evaluate import engines, limits
from castsmith.verification.evaluate.engines import (
    CrashError,
    Engine,
    EngineError,
    _gathered,  # pyright: ignore[reportPrivateUsage]
    _placed,  # pyright: ignore[reportPrivateUsage]
    adds_up,
    alone,
    is_half,
)
from castsmith.verification.evaluate.limits import Budget, LimitError, seconds_for

X = np.ones((2, 3), np.float32)
IMPORTS = {"": 21}


def crash(*, late: bool = False) -> CrashError:
    error = CrashError("crashed")
    error.late = late
    return error


class Script:
    """The errors that engines raise, in order; None for none, as after the last."""

    def __init__(self, **steps: list[Exception | None]) -> None:
        self.steps = {name.replace("_", " "): list(each) for name, each in steps.items()}
        self.made: list[tuple[str, onnx.ModelProto, list[str]]] = []
        self.calls: list[str] = []
        self.fed: list[list[str]] = []

    def does(self, kind: str, what: str) -> None:
        self.calls.append(f"{kind} {what}")
        waiting = self.steps.get(f"{kind} {what}", [])
        error = waiting.pop(0) if waiting else None
        if error is not None:
            raise error


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script()
    monkeypatch.setattr(engines, "require_installed", len)  # none is asked

    class Told:
        """Stands for a prepared model."""

        def __init__(self, kind: str, model: bytes, fixed: Mapping[str, Any]) -> None:
            self.kind, self.model, self.fixed = kind, model, fixed
            made.made.append((kind, onnx.ModelProto.FromString(model), sorted(fixed)))

        def ready(self) -> None:
            made.does(self.kind, "ready")

        def run(self, feeds: Mapping[str, Any], *_seconds: float) -> list[Any]:
            made.fed.append(sorted(feeds))
            made.does(self.kind, "run")
            return [sum(feeds.values())]

    monkeypatch.setattr(engines, "Prepared", Told)
    return made


def node_of(op_type: str = "Neg", count: int = 1, outputs: int = 1, domain: str = "") -> onnx_ir.Node:
    node = onnx_ir.Node(domain, op_type, [onnx_ir.Value(name=f"x{i}") for i in range(count)], num_outputs=outputs)
    for index, value in enumerate(node.outputs):
        value.name = f"y{index}"
    return node


def test_one_session_runs_a_node_again(script: Script) -> None:
    engine, node = Engine("onnxruntime"), node_of()
    for _ in range(2):
        assert engine.run(node, [X], IMPORTS)[0].tolist() == X.tolist()
    assert len(script.made) == 1
    engine.run(node, [X[0]], IMPORTS)
    engine.run(node, [X.astype(np.float16)], IMPORTS)
    engine.run(node_of(), [X], IMPORTS)
    assert len(script.made) == 4
    engine.run(node, [X], IMPORTS, fresh=True)
    assert len(script.made) == 5
    assert engine.ran == {"onnxruntime": {"Neg"}}
    assert engine.stood_in == set()


def test_constants_are_given_once(script: Script) -> None:
    node = onnx_ir.Node("", "Add", [onnx_ir.Value(name="x"), onnx_ir.Value(name="w", const_value=onnx_ir.tensor(X))])
    node.outputs[0].name = "y"
    assert Engine("onnxruntime").run(node, [X, X], IMPORTS)[0].tolist() == X.tolist()
    assert script.made[0][2] == ["i1"]
    for engine in (Engine("openvino"), Engine("onnxruntime", half_inside=lambda _: True)):
        script.fed.clear()
        node.op_type = "ReduceSum"
        engine.run(node, [X.astype(np.float16), np.array([1])], IMPORTS)
        assert script.fed == [["i0"], ["i0"]], engine.name  # once to try, and once


def test_the_model_of_one_node(script: Script) -> None:
    node = onnx_ir.Node("f", "n", [onnx_ir.Value(name="x"), None, onnx_ir.Value(name="z")],
                        [onnx_ir.AttrInt64("k", 2)], num_outputs=2)  # fmt: skip
    node.outputs[0].name, node.outputs[1].name = "", "b"
    Engine("onnxruntime").run(node, [X, None, X[0]], {"": 19, "g": 2}, extra={"seed": 1.5})
    model = script.made[0][1]
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 19), ("g", 2), ("f", 1)]
    assert model.ir_version <= 10
    (made,) = model.graph.node
    assert (list(made.input), list(made.output)) == (["i0", "", "i2"], ["", "o1"])
    assert {each.name: each.f or each.i for each in made.attribute} == {"seed": 1.5, "k": 2}
    shapes = [(each.name, len(each.type.tensor_type.shape.dim)) for each in model.graph.input]
    assert shapes == [("i0", 2), ("i2", 1)]
    assert [each.name for each in model.graph.output] == ["o1"]
    for domain, imports, expected in (
        ("f", {"": 19, "f": 2}, [("", 19), ("f", 2)]), ("ai.onnx", {"": 19}, [("", 19)]), ("", {}, []),
        ("f", {}, [("f", 1)]),
    ):  # fmt: skip
        made = alone(node_of(domain=domain), [X], imports).opset_import
        assert [(each.domain, each.version) for each in made] == expected


def test_an_error_of_a_node_without_operands(script: Script) -> None:
    script.steps = Script(onnxruntime_run=[EngineError("bad")]).steps
    with pytest.raises(EngineError, match=r"^Neg does not run on no operands: bad\.$"):
        Engine("onnxruntime").run(node_of(count=0), [], IMPORTS)


@pytest.mark.parametrize(
    ("steps", "calls", "stood_in", "crashes"),
    [
        ({}, ["onnxruntime ready", "onnxruntime run"], False, []),
        ({"onnxruntime_ready": [EngineError("no")]},
         ["onnxruntime ready", "reference ready", "reference run"], True, []),
        ({"onnxruntime_ready": [crash()]}, ["onnxruntime ready", "onnxruntime ready", "onnxruntime run"], False, []),
        ({"onnxruntime_ready": [crash(), crash()]},
         ["onnxruntime ready", "onnxruntime ready", "reference ready", "reference run"], True,
         ["ONNX Runtime crashed when it reads Neg"]),
        ({"onnxruntime_ready": [crash(late=True)]}, ["onnxruntime ready", "reference ready", "reference run"], True,
         ["ONNX Runtime crashed when it reads Neg"]),
        ({"onnxruntime_run": [crash()]}, ["onnxruntime ready", "onnxruntime run", "onnxruntime run"], False, []),
        ({"onnxruntime_run": [crash(), crash()]},
         ["onnxruntime ready", "onnxruntime run", "onnxruntime run", "reference run"], True,
         ["ONNX Runtime crashed in Neg on float[2, 3]"]),
        ({"onnxruntime_run": [EngineError("Neg operator does not support double yet")]},
         ["onnxruntime ready", "onnxruntime run", "reference run"], True, []),
    ],
)  # fmt: skip
def test_what_stands_in(
    script: Script, steps: dict[str, Any], calls: list[str], stood_in: bool, crashes: list[str]
) -> None:
    script.steps = Script(**steps).steps
    engine = Engine("onnxruntime")
    assert engine.run(node_of(), [X], IMPORTS)[0].tolist() == X.tolist()
    assert script.calls == calls
    assert engine.stood_in == ({"Neg"} if stood_in else set())
    assert engine.crashes == crashes
    assert (calls[-1].split()[0] in engine.ran, engine.ran[calls[-1].split()[0]]) == (True, {"Neg"})


@pytest.mark.parametrize(
    ("steps", "kind", "text"),
    [
        ({"onnxruntime_run": [EngineError("bad index")]}, EngineError,
         "Neg does not run on float[2, 3]: bad index."),
        *(
            ({"onnxruntime_run": [EngineError(said)]}, LimitError, f"Neg does not run on float[2, 3]: {said}.")
            for said in (
                *("std::bad_alloc", "bad allocation", "Failed to allocate memory for requested buffer of size 9"),
                *("Unable to allocate 9 GiB for an array", "MemoryError()"),
            )
        ),
        ({"onnxruntime_run": [crash(late=True)]}, LimitError,
         "Neg crashed on float[2, 3] (`seconds=` allows more)."),
        ({"onnxruntime_run": [crash(), crash()], "reference_run": [crash(), crash()]}, EngineError,
         "Neg crashed on float[2, 3]."),
        ({"onnxruntime_ready": [EngineError("no")], "reference_ready": [EngineError("neither")]}, EngineError,
         "no engine supports Neg of ai.onnx (neither)."),
    ],
)  # fmt: skip
def test_errors(script: Script, steps: dict[str, Any], kind: type[EngineError], text: str) -> None:
    script.steps = Script(**steps).steps
    with pytest.raises(EngineError) as error:
        Engine("onnxruntime").run(node_of(), [X], IMPORTS)
    assert str(error.value) == text
    assert isinstance(error.value, LimitError) is (kind is LimitError)
    assert error.value.unsupported is text.startswith("no engine")


def test_types_that_no_session_takes(script: Script) -> None:
    engine = Engine("onnxruntime")
    engine.run(node_of(), [X.astype(ml_dtypes.bfloat16)], IMPORTS)
    assert script.calls == ["reference ready", "reference run"]
    assert engine.stood_in == {"Neg"}
    script.calls.clear()
    engine = Engine("reference")
    engine.run(node_of(), [X], IMPORTS)
    assert (script.calls, engine.stood_in) == (["reference ready", "reference run"], set())


@pytest.mark.parametrize(
    ("array", "kept"),
    [
        (X, True), (X.astype(np.float64), False), (np.array([2**31 - 1, -(2**31)]), True), (np.array([2**31]), False),
        (np.array([-(2**31) - 1]), False), (np.zeros(0, np.int64), True),
        *((np.zeros(2, name), True) for name in ("float16", "int8", "uint8", "int32", "bool")),
        *((np.zeros(2, name), False) for name in ("int16", "uint16")),
    ],
)  # fmt: skip
def test_types_that_openvino_narrows(script: Script, array: Any, kept: bool) -> None:
    pytest.importorskip("openvino")
    Engine("openvino").run(node_of(), [array], IMPORTS)
    tried = ["openvino ready", "openvino run", "openvino run"]
    assert script.calls == (tried if kept else ["reference ready", "reference run"])


def test_openvino_must_run_what_it_reads(script: Script) -> None:
    pytest.importorskip("openvino")
    script.steps = Script(openvino_run=[EngineError("no")]).steps
    Engine("openvino").run(node_of(), [X], IMPORTS)
    assert script.calls == ["openvino ready", "openvino run", "reference ready", "reference run"]


@pytest.mark.parametrize("index", [np.array([[3]]), np.array([[-4]]), np.array([[np.nan]], np.float32)])
def test_a_place_that_the_table_lacks_is_an_error_of_the_engine(index: Any) -> None:
    engine, table = Engine("reference"), np.arange(3, dtype=np.float32).reshape(3, 1)
    with pytest.raises(EngineError):  # fewer columns than the table has: left to the engine, and not repeated
        engine.run(node_of("GatherElements", 2), [np.ones((3, 2), np.float32), np.array([[2]])], IMPORTS)
    assert engine.run(node_of("GatherElements", 2), [table, np.array([[-3], [2]])], IMPORTS)[0].tolist() == [[0], [2]]
    with pytest.raises(EngineError):
        engine.run(node_of("GatherElements", 2), [table, index], IMPORTS)


def test_an_unknown_engine_and_one_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match=r"^unknown engine 'tvm'; expected onnxruntime, openvino and reference\.$"):
        Engine("tvm")
    monkeypatch.setattr(engines, "find_spec", dict[str, None]().get)
    text = r"^ONNX Runtime is not installed: `pip install onnxruntime`, or choose the engine `reference`\.$"
    with pytest.raises(EngineError, match=text):
        Engine("onnxruntime")
    assert Engine("reference").name == "reference"


def test_the_work_that_is_counted() -> None:
    """An operator is one, and one more for each 10,000 elements of its operands; 1000 are a second's."""
    budget = Budget(2.0)
    budget.note([np.zeros(4000), None, np.zeros((2, 3000))])
    budget.note([])
    assert (budget.runs, budget.tried) == (3.0, 3 / 2000)


def test_a_loop_may_take_as_many_steps_as_its_part_of_the_time() -> None:
    budget = Budget(1.0, part=0.5)
    most = int(limits.SECONDS * 1000 * 0.5)
    budget.turn("the loop", most - 2)
    budget.turn("the loop", 0)
    with pytest.raises(LimitError, match=f"^the loop does not end within {most + 2} steps on these inputs"):
        budget.turn("the loop", 1)


def test_the_time_by_the_size_of_the_models() -> None:
    model = onnx_ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]> g (bool c, float[N] x) => (y) <float[4] w = {1, 2, 3, 4}> {
            y = If (c) <then_branch = t () => (a) { a = Neg (x) }, else_branch = e () => (b) { b = Abs (x) }> }"""
    )
    least = seconds_for([])
    assert seconds_for([model, model]) == least + 6 / 10 + 32 / 2**18
    assert seconds_for([model] * 400) == limits.SECONDS


SUMS = (
    *("ReduceSum", "ReduceMean", "ReduceL2", "ReduceSumSquare", "LpNormalization", "LpPool", "GlobalLpPool"),
    *("InstanceNormalization", "MeanVarianceNormalization"),
)
NO_SUMS = (
    *("ReduceMax", "ReduceLogSumExp", "LayerNormalization", "RMSNormalization", "BatchNormalization", "MatMul", "Gemm"),
    *("Conv", "Relu", "Add", "LpNormalization of d"),
)
"""Kernels subtract the maximum first, or add up in float, or there is one of each result; or nobody knows."""


def test_what_adds_up_many_elements() -> None:
    for name in (*SUMS, *NO_SUMS):
        op_type, _, domain = name.partition(" of ")
        assert adds_up(onnx_ir.node(op_type, [], domain=domain)) == (name in SUMS), name


TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("axis", "index", "expected"),
    [
        (0, [[1, 0, 1]], [[3, 1, 5]]), (None, [[1, 0, 1]], [[3, 1, 5]]), (1, [[2], [0]], [[2], [3]]),
        (-1, [[-1], [0]], [[2], [3]]), (-2, [[1, 0, 1]], [[3, 1, 5]]),
        # these are for the engine to refuse
        (2, [[0], [0]], None), (-3, [[0], [0]], None), (0, [0, 1, 0], None), (0, [[1, 0]], None), (1, [[1]], None),
        (1, [0, 1], None),
        (0, None, None),
    ],
)  # fmt: skip
def test_elements_that_are_gathered(axis: int | None, index: Any, expected: Any) -> None:
    node = onnx_ir.node("GatherElements", [], {} if axis is None else {"axis": axis})
    found = _gathered(node, [TABLE, None if index is None else np.array(index)])
    assert (None if found is None else found.tolist()) == expected
    assert _gathered(node, [None, np.array([[0]])]) is None
    other = onnx_ir.node("GatherElements", [], domain="com.microsoft")
    assert _gathered(other, [TABLE, np.array([[0, 0, 0]])]) is None


@pytest.mark.parametrize("index", [[[2, 0, 0]], [[-3, 0, 0]], [[0.0, 0.0, 0.0]]])
def test_indices_that_are_not_gathered(index: Any) -> None:
    with pytest.raises(EngineError, match="not one of the 2 elements along its axis"):
        _gathered(onnx_ir.node("GatherElements", []), [TABLE, np.array(index)])


@pytest.mark.parametrize("result", [[X], (X,), {"a": X}])
def test_a_result_that_is_no_array(result: Any) -> None:
    with pytest.raises(EngineError, match="its result is a sequence or a map"):
        _placed(onnx_ir.node("Add", []), [result])


def test_results_are_placed_where_they_are_named() -> None:
    node = onnx_ir.node("Split", [], outputs=[onnx_ir.Value(name=name) for name in ("", "a", "", "b")])
    assert [array.size for array in _placed(node, [X, X[:1]])] == [0, 6, 0, 3]


def test_which_operands_are_half() -> None:
    half = np.ones(1, np.float16)
    for operands, expected in (
        ([half], True),
        ([half, X], True),
        ([X, half], False),
        ([None, half], False),
        ([], False),
    ):
        assert is_half(operands) is expected


def test_only_sums_of_half_are_left_to_an_engine_that_adds_up_in_half(script: Script) -> None:
    for op_type, array, expected in (
        ("ReduceSum", X.astype(np.float16), "reference"),
        ("ReduceSum", X, "onnxruntime"),
        ("Neg", X.astype(np.float16), "onnxruntime"),
    ):
        script.calls.clear()
        Engine("onnxruntime", half_inside=lambda _: True).run(node_of(op_type), [array], IMPORTS)
        assert script.calls[-1] == f"{expected} run"


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        ("onnxruntime", X, True), ("onnxruntime", X.astype(np.float64), True), ("onnxruntime", np.array([2**31]), True),
        ("onnxruntime", X.astype(ml_dtypes.bfloat16), False), ("openvino", X, True),
        ("openvino", X.astype(np.float64), False), ("openvino", np.array([2**31]), False), ("reference", X, False),
        ("openvino", X.astype(ml_dtypes.bfloat16), False),
    ],
)  # fmt: skip
def test_types_that_an_engine_takes(name: str, array: Any, expected: bool) -> None:
    assert Engine(name)._takes([array, None]) is expected  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("domain", ["", "f"])
def test_an_operator_that_no_engine_supports_is_named_with_its_domain(script: Script, domain: str) -> None:
    script.steps = Script(onnxruntime_ready=[EngineError("no")], reference_ready=[EngineError("no")]).steps
    with pytest.raises(EngineError, match=rf"no engine supports Neg of {domain or 'ai.onnx'} \(no\)"):
        Engine("onnxruntime").run(node_of(domain=domain), [X], {"": 21, "f": 1})
