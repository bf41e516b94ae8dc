"""Conversions written out: the whole model, its records and the reason at every node, default and with all converted.

One file in `golden` for each model. `python -m tests.passes.precision.test_run` writes them again, to be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest
from onnx_ir import DataType

from castsmith.ir.io.loading import from_proto
from castsmith.lowering.registry import make_pass
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.core.session import Session
from castsmith.passes.precision.run import ConvertPrecision, PrecisionResult, asked_target, nothing_to_convert
from castsmith.targets.target import load_target
from tests.graphs.golden import comparable, model_text, records_text
from tests.passes.precision.further_models import FURTHER
from tests.passes.precision.models import TEXTS, model

FOLDER = Path(__file__).with_name("golden")
SPECS = ("convert-precision", "convert-precision{io=convert lower=*}")


def source(name: str) -> onnx.ModelProto:
    return model(name) if name in TEXTS else onnx.parser.parse_model(FURTHER[name][1])


def specs(name: str) -> tuple[str, ...]:
    return SPECS if name in TEXTS else FURTHER[name][0]


def written(name: str) -> str:
    """Return what each conversion of a model gives."""
    parts: list[str] = []
    for spec in specs(name):
        converted = from_proto(source(name))
        options, _, target = spec.partition(" for ")
        result = make_pass(options, {"target": load_target(target) if target else None})(converted)
        assert isinstance(result, PrecisionResult)
        nodes = result.precisions.values()
        reasons = (f"# {node.result}: {type_name(node.dtype)} in {node.region} | {node.reason}\n" for node in nodes)
        parts.append(f"# {spec}\n{model_text(converted)}{records_text(result.records)}{''.join(reasons)}")
    return "\n".join(parts)


def path(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '_')}.onnxtxt"


@pytest.mark.parametrize("name", [*TEXTS, *FURTHER])
def test_gives_what_the_file_says(name: str) -> None:
    assert comparable(written(name)) == comparable(path(name).read_text(encoding="utf-8"))


def test_each_file_is_of_a_model() -> None:
    assert {each.name for each in FOLDER.iterdir()} == {path(name).name for name in (*TEXTS, *FURTHER)}


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (("float", "float"), ""),
        (("float16", "float16"), "the model is already in float16: nothing in it is of bfloat16, double or float"),
        (("int64", "int64"), "the model has no floating-point values: nothing in it is of bfloat16, double or float"),
        (("uint64", "int64"), ""),  # whose common type is float
    ],
)
def test_what_there_is_to_convert(types: tuple[str, str], expected: str) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g ({}[2] x, {}[2] z) => (y) {{ y = Add (x, z) }}"""
    parsed = from_proto(onnx.parser.parse_model(text.format(*types)))
    assert nothing_to_convert(parsed, DataType.FLOAT16) == expected


def test_reasons_of_a_sparing_conversion() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[4,4] x) => (float[4,4] y) { a = MatMul (x, x)
        b = Transpose (a) c = Relu (a) d = MatMul (b, b) s = Shape (d) e = MatMul (c, c) y = Add (d, e) }"""
    result = ConvertPrecision(lower="op:MatMul", sparing=True)(from_proto(onnx.parser.parse_model(text)))
    assert isinstance(result, PrecisionResult)
    asked, left = ("float16", "converted, as requested by op:MatMul"), ("float", "nothing goes wrong there", 0)
    between = ("float16", "it moves elements between nodes that are converted", 1)
    found = {each.result: (type_name(each.dtype), each.reason, each.region) for each in result.precisions.values()}
    assert found == {"a": (*asked, 1), "b": between, "c": left, "d": (*asked, 1), "e": (*asked, 2), "y": left}


def test_settings_are_kept_as_tuples_of_what_they_name() -> None:
    lists: dict[str, Any] = {"sources": ["double"], "keep": ["op:If"], "lower": iter(["a", "b"])}
    double = (DataType.DOUBLE,)
    expected = ConvertPrecision(DataType.BFLOAT16, sources=double, keep=("op:If",), lower=("a", "b"))
    assert ConvertPrecision("bfloat16", **lists) == expected
    texts: dict[str, Any] = {"sources": "double", "keep": "a,b"}
    settings = ConvertPrecision(**texts)
    assert (settings.sources, settings.keep) == (double, "a,b")


@pytest.mark.parametrize(
    ("name", "to", "expected"),
    [
        (None, DataType.FLOAT16, "onnxruntime-cpu"),
        (None, DataType.FLOAT, "onnxruntime-cpu"),
        (None, DataType.BFLOAT16, None),
        ("tensorrt-11", DataType.BFLOAT16, "tensorrt-11"),
        ("onnxruntime-cuda", DataType.FLOAT16, None),  # whose kernels are unknown
    ],
)
def test_whose_kernels_count(name: str | None, to: DataType, expected: str | None) -> None:
    target = asked_target(None if name is None else load_target(name), to)
    assert (target and target.name) == expected


@pytest.mark.parametrize(("element_type", "modified"), [("float", True), ("int32", False)])
def test_what_was_known_of_a_model_is_forgotten_only_if_it_changes(element_type: str, modified: bool) -> None:
    text = f"g ({element_type}[4,4] x) => ({element_type}[4,4] y) {{ y = MatMul (x, x) }}"
    session = Session(from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')))
    known = session.inference(PromotionRules())
    assert ConvertPrecision().rewrite(session).modified == modified
    assert (session.inference(PromotionRules()) is not known) == modified


@pytest.mark.parametrize(("io", "types"), [("keep", "111"), ("convert", "AAA"), ("x", "A11"), ("z, x", "A1A")])
def test_which_inputs_and_outputs_change(io: str, types: str) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2,2] x) => (float[2,2] y, float[2,2] z)
        { y = MatMul (x, x) z = MatMul (y, x) }"""
    model = ConvertPrecision(io=io)(from_proto(onnx.parser.parse_model(text))).model
    assert "".join(f"{value.dtype:X}" for value in (*model.graph.inputs, *model.graph.outputs) if value.dtype) == types


if __name__ == "__main__":
    for each in (*TEXTS, *FURTHER):
        path(each).write_text(written(each), encoding="utf-8")
