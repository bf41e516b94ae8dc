"""Conversions written out: the whole model, its records and the reason at every node, default and with all converted.

One file in `golden` for each model. `python -m tests.passes.precision.test_run` writes them again, to be read.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx_ir import DataType

from castsmith.ir.io.loading import from_proto
from castsmith.lowering.registry import make_pass
from castsmith.numerics.types import type_name
from castsmith.passes.precision.run import PrecisionResult, nothing_to_convert
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


if __name__ == "__main__":
    for each in (*TEXTS, *FURTHER):
        path(each).write_text(written(each), encoding="utf-8")


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
