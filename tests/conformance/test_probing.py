"""Probing a runtime: what is made of an engine's answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import pytest
from onnx_ir import DataType

from castsmith.conformance import probing
from castsmith.conformance.probe_models import TEXTS
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.targets.statements import TargetError

FLOAT, INT8 = DataType.FLOAT, DataType.INT8


@pytest.mark.parametrize(
    ("works", "expected"),
    [
        ({}, ()),
        ({1: False, 7: False}, ()),
        ({1: True, 7: True}, (1,)),
        ({1: False, 7: True, 9: True}, (7,)),
        ({1: True, 7: False}, (1, 7)),
        ({1: True, 7: False, 9: False}, (1, 7)),
        ({1: True, 7: False, 9: True}, (9,)),
        ({1: True, 7: False, 9: True, 11: False}, (9, 11)),
    ],
)
def test_when_an_operator_began_and_ceased_to_work(works: dict[int, bool], expected: tuple[int, ...]) -> None:
    assert probing._span(works) == expected  # pyright: ignore[reportPrivateUsage]


def test_types_of_one_row_are_grouped() -> None:
    rows = {FLOAT: {"Add": 7, "Abs": 6}, INT8: {"Add": 14}, DataType.DOUBLE: {"Abs": 6, "Add": 7}}
    assert list(probing.grouped(rows)) == [
        {"types": ["float", "double"], "operators": {"Abs": 6, "Add": 7}},
        {"types": ["int8"], "operators": {"Add": 14}},
    ]


def test_the_text_of_a_target_has_an_entry_in_each_line() -> None:
    data = {"name": "n", "types": ["a", "b"], "kernels": [{"t": 1}, {"u": [2]}], "evidence": {"x": "y", "z": {}}}
    data |= {"opset": 20, "none": None}
    text = probing.target_text(data)
    assert json.loads(text) == data
    assert text == (
        '{\n  "name": "n",\n  "types": ["a", "b"],\n  "kernels": [\n    {"t": 1},\n    {"u": [2]}\n  ],\n'
        '  "evidence": {\n    "x": "y",\n    "z": {}\n  },\n  "opset": 20,\n  "none": null\n}\n'
    )


class _Engine:
    """Loads opset up to 20 and IR version up to 9, runs Relu from 7 to 13, and Abs of float alone.

    It has no Identity of int8, and no FusedMatMul.
    """

    def __init__(self, kind: str, model: bytes) -> None:
        assert kind == "onnxruntime optimized"
        self.model = onnx.ModelProto.FromString(model)

    def ready(self, seconds: float) -> None:
        assert seconds == 60.0
        opset = self.model.opset_import[0].version
        if opset > 20 or self.model.ir_version > 9:
            raise probing.EngineError("new")
        kinds = {value.type.tensor_type.elem_type for value in self.model.graph.input}
        if "Abs" in str(self.model.graph.node) and kinds != {1}:
            raise probing.EngineError("no kernel")
        nodes = {node.op_type for node in self.model.graph.node}
        if nodes == {"FusedMatMul"} or (nodes == {"Identity"} and kinds == {3}):
            raise probing.EngineError("no kernel")

    def run(self, feeds: dict[str, Any], seconds: float) -> None:
        assert seconds == 60.0
        assert all(np.array_equal(array, np.ones((2, 2))) for array in feeds.values() if array.ndim == 2)
        opset = self.model.opset_import[0].version
        if "Relu" in str(self.model.graph.node) and not 7 <= opset <= 13:
            raise probing.EngineError("does not run")


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of a target that an engine of few operators is compared with."""
    monkeypatch.setattr(probing, "Prepared", _Engine)
    monkeypatch.setattr(probing, "TARGETS_FOLDER", tmp_path)
    monkeypatch.setattr(probing, "TEXTS", {name: TEXTS[name] for name in ("Relu", "Abs", "Identity", "Cast")})
    monkeypatch.setattr(probing, "ELEMENT_TYPES", [FLOAT, INT8, DataType.STRING, DataType.FLOAT8E8M0])
    monkeypatch.setattr(
        probing, "contrib_operators", lambda: ("FastGelu", "FusedGemm", "FusedMatMul", "MatMulNBits", "QLinearAdd")
    )
    return tmp_path / "onnxruntime-cpu.json"


def test_what_is_measured_of_a_runtime(probed: Path) -> None:
    if onnx.defs.onnx_opset_version() < NEWEST_OPSET:
        pytest.skip("needs a newer onnx")
    shipped = {"hazards": [1], "types": [], "release": "old", "evidence": {"types": "before", "hazards": "why"}}
    probed.write_text(json.dumps(shipped))
    found = probing.probe("onnxruntime-cpu")
    contrib = {f"com.microsoft.{name}": 1 for name in ("FastGelu", "FusedGemm", "MatMulNBits")}
    own = {"name": "onnxruntime-cpu", "newest_opset": 20, "newest_ir_version": 9, "hazards": [1]}
    assert {key: found[key] for key in own} == own
    assert found["types"] == ["float", "int8", "string"]
    assert found["probed"] == sorted(["Relu", "Abs", "Identity", "Cast", *contrib])
    assert found["kernels"] == [
        {"types": ["float"], "operators": {"Relu": 7, "Abs": 1, "Identity": 1, "Cast": 1, **contrib}},
        {"types": ["int8"], "operators": {"Cast": 1}},
        {"types": ["string"], "operators": {"Identity": 1, "Cast": 9}},
    ]
    assert found["dropped"] == [{"types": ["float"], "operators": {"Relu": 14}}]
    assert found["description"] == f"ONNX Runtime {found['release']}, CPU execution provider"
    how = f"{datetime.now(UTC).date()}: each operator of `probed` loaded and run with each type, of "
    assert found["evidence"] == {**dict.fromkeys(("types", "kernels"), how + found["description"]), "hazards": "why"}
    # what is as before keeps its evidence
    probed.write_text(json.dumps({**found, "release": "old", "evidence": shipped["evidence"]}))
    again = probing.probe("onnxruntime-cpu")
    assert (again["release"], again["evidence"]) == ("old", shipped["evidence"])


def test_models_that_onnx_cannot_write_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those of types or operators that the installed one lacks."""

    def refuse(*_: object, **__: object) -> bool:
        raise AssertionError

    monkeypatch.setattr(probing, "_loads", refuse)
    monkeypatch.setattr(probing, "TEXTS", {"Abs": TEXTS["Abs"]})
    undefined = '<ir_version: 8, opset_import: ["" : 13]>\nagraph (float x) => (float y) { y = None (x) }'

    def model_text(_op: str, dtype: DataType, *_: int) -> str:
        return undefined if dtype == FLOAT else "nothing"

    monkeypatch.setattr(probing, "model_text", model_text)
    for dtype in (FLOAT, INT8):
        assert probing._try_operators(dtype, 20, 9, "onnxruntime optimized") == {}  # pyright: ignore[reportPrivateUsage]
    assert not probing._binary(undefined)  # pyright: ignore[reportPrivateUsage]
    assert probing._binary(undefined, defined=False)  # pyright: ignore[reportPrivateUsage]


def test_what_cannot_be_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TargetError, match=r"^'x' cannot be probed; only onnxruntime-cpu, openvino-cpu can\.$"):
        probing.probe("x")
    with pytest.raises(TargetError, match=r"^none_such is not installed, so it cannot be probed\.$"):
        probing._installed("none_such")  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 20)
    with pytest.raises(TargetError, match=r"^probing needs an onnx that has opset 28; the installed one is "):
        probing.probe("onnxruntime-cpu")


def test_ones_are_fed_where_numpy_has_the_types() -> None:
    def model(*kinds: int) -> bytes:
        shapes = [(2, None), (3,), ()]
        values = [onnx.helper.make_tensor_value_info(f"v{n}", kind, shapes[n]) for n, kind in enumerate(kinds)]
        graph = onnx.helper.make_graph([], "g", values[:-1], values[-1:])
        return onnx.helper.make_model(graph).SerializeToString()

    feeds = probing._ones(model(1, 7, 9))  # pyright: ignore[reportPrivateUsage]
    assert feeds is not None
    assert {name: (array.dtype.name, array.shape) for name, array in feeds.items()} == {
        "v0": ("float32", (2, 2)),
        "v1": ("int64", (3,)),
    }
    assert all((array == 1).all() for array in feeds.values())
    for kind in (8, 16, 17, 21, 23):  # of an input, or of the output
        assert probing._ones(model(1, kind, 1)) is None  # pyright: ignore[reportPrivateUsage]
        assert probing._ones(model(1, 1, kind)) is None  # pyright: ignore[reportPrivateUsage]
