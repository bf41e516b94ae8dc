"""The ways that `fit` tries, and how it ranks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.lowering.fit.results import Step
from castsmith.lowering.fit.ways import Traits, conversions, exact_steps, ports_of, traits_of_model, weights_alone
from castsmith.numerics.types import parse_type
from castsmith.targets.target import Target
from tests.lowering.fit.models import HEAD, brain_floats, doubles, four_bits, plain
from tests.lowering.fit.test_run import fitted
from tests.sampling import check_all


def test_weights_alone_are_a_way_whose_casts_run_once() -> None:
    model = onnx.parser.parse_model(f"{HEAD} g (float[1, 64] x) => (float[1, 64] y) {{ [mul] y = MatMul (x, w) }}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    result = castsmith.fit(model, target="onnxruntime-cpu", max_error=0.01, all_ways=True)
    (alone,) = (way for way in result.ways if "weights_only" in way.steps[0].options)
    assert alone.legal
    assert alone.error is not None
    assert alone.cost is not None
    assert result.before is not None
    assert alone.cost.tensor_bytes == result.before.tensor_bytes // 2
    assert alone.cost.launches == result.before.launches
    assert "--weights-only" in alone.commands("in.onnx", "out.onnx")[0]
    assert [step.command for step in result.plan] == ["optimize"]  # nothing is rounded where it is not needed


def test_all_ways_are_ranked_and_different() -> None:
    result = castsmith.fit(four_bits(), target="onnxruntime-webgpu", all_ways=True, max_error=0.1)
    ranks = [(not way.legal, way.lossy, 0 if way.cost is None else way.cost.total) for way in result.ways]
    assert ranks == sorted(ranks)
    assert len({(way.cost, way.obstacles, way.changes, way.lossy) for way in result.ways}) == len(result.ways)
    assert len(result.ways) > len(fitted("4 bits").ways)
    assert result.ways[0].steps == tuple(result.plan)


def erf_of_double() -> onnx.ModelProto:
    body = "d = Cast <to = 11> (x) e = Erf (d) a = Cast <to = 1> (e) y = Erf (a)"
    return onnx.parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ {body} }}")


def tenths() -> onnx.ModelProto:
    text = f"{HEAD} g (float[4] x) => (float[4] y) <float k = {{0.1}}> {{ y = Mul (x, k) }}"
    return onnx.parser.parse_model(text)


WITHOUT_ERF = Target(
    "t", newest_opset=21, newest_ir_version=10, types=("float", "float16", "bool"), probed=("Erf", "Cast", "Gather"),
    kernels={"float": {"Cast": 6, "Add": 7}, "float16": {"Cast": 6, "Add": 7}},
)  # fmt: skip
TO_FLOAT_THERE = ["convert(to='float', lower=('*',))", "optimize()"]


@pytest.mark.parametrize(
    ("model", "target", "most", "tried"),
    [
        (plain, "tensorrt-11", None, ["optimize()"]),
        # trt has no zero points, and the packed weights need shifts, which TensorRT lacks.
        (four_bits, "tensorrt-11", None, ["optimize()", "optimize(storage='byte')"]),
        (four_bits, "onnxruntime-webgpu", None, ["optimize()", "optimize(vendor='com.microsoft')"]),
        (four_bits, "onnxruntime-cpu", None, ["optimize()"]),
        # TensorRT computes in float itself; of bfloat16, which ONNX Runtime's CPU does not, the conversion is tried.
        (doubles, "onnxruntime-cpu", None, ["optimize()"]),
        (brain_floats, "tensorrt-11", None, ["optimize()"]),
        (brain_floats, "onnxruntime-cpu", None, ["optimize()", *TO_FLOAT_THERE]),
        # What a search for the error would keep is kept where an exact way is legal, and where no error was too large.
        (brain_floats, "onnxruntime-cpu", 1e-9, ["optimize()", *TO_FLOAT_THERE]),
        (erf_of_double, WITHOUT_ERF, 0.1,
         ["optimize()", "optimize(narrow=('double',))", *TO_FLOAT_THERE, "convert(to='float16')", "optimize()"]),
        (tenths, Target("t", newest_opset=21, newest_ir_version=10, types=("bfloat16", "bool")), 1e-9,
         ["optimize()", "optimize(interface='wide')", "convert(to='bfloat16')", "optimize()",
          "convert(to='bfloat16', io='convert')", "optimize()", "convert(to='bfloat16', max_error=1e-09)",
          "optimize()", "convert(to='bfloat16', io='convert', max_error=1e-09)"]),
    ],
)  # fmt: skip
def test_no_step_is_tried_that_cannot_be_better(
    model: Any, target: str | Target, most: float | None, tried: list[str]
) -> None:
    done = list[str]()
    castsmith.fit(model(), target=target, max_error=most, progress=done.append)
    steps = [text.replace(f", target='{target}'", "").replace(f"target='{target}'", "") for text in done]
    assert [text.replace("(, ", "(") for text in steps if text != "measuring"] == tried


def test_a_conversion_that_cannot_be_done_is_a_way_with_the_reason() -> None:
    text = '<ir_version: 7, opset_import: ["": 9]> g (float[1, 2] x) => (float[1, 2] y) { y, m = Dropout (x) }'
    result = castsmith.fit(onnx.parser.parse_model(text), target=target_of("bfloat16", "bool"))
    error = "bfloat16 needs opset 13, and Dropout has a mask as its second output; export the model at opset 13."
    assert [(way.legal, way.lossy) for way in result.ways if way.obstacles == (error,)] == [(False, True)]
    assert {finding.help for finding in result.diagnostics} == {f"{len(result.ways)} ways were tried"}
    assert not result.plan


def test_an_error_that_cannot_be_measured_is_told() -> None:
    inputs = {"x": np.zeros((3, 3), np.float32)}
    for most in (0.05, None):
        result = castsmith.fit(brain_floats(), target="onnxruntime-cpu", max_error=most, inputs=inputs)
        assert [step.command for step in result.plan] == ["optimize"]
        assert result.hint == "the inputs: 'x' has the shape [3, 3]; expected [4, 16]"
        assert {way.obstacles for way in result.ways if way.lossy} == {(f"{result.hint}.",)}


BASIC = ("float", "int32", "int64", "bool", "uint8", "int8")


def target_of(*types: str, **fields: Any) -> Target:
    return Target("t", newest_opset=21, newest_ir_version=10, types=types, **fields)


def traits_of(ports: Mapping[str, str], *more: str) -> Traits:
    dtypes = {name: parse_type(dtype) for name, dtype in ports.items()}
    return Traits(frozenset({*dtypes.values(), *map(parse_type, more)}), dtypes)


def shown(steps: Any) -> list[str]:
    """The steps without what each has."""
    return [str(step).replace("target='t', ", "").replace("target='t'", "").replace(", )", ")") for step in steps]


BYTE = "optimize(storage='byte')"
NARROWED = "optimize(narrow=('int64',)"
EXACT: list[tuple[Target, Traits, Mapping[str, tuple[float, float]], list[str]]] = [
    (target_of(*BASIC), traits_of({"x": "float"}), {}, ["optimize()", BYTE]),
    # What the target lacks is narrowed inside; where an input or output has it too, that one is as well.
    (target_of("float", "int32"), traits_of({"x": "float"}, "int64"), {}, ["optimize()", BYTE, f"{NARROWED})"]),
    (target_of("float", "int32"), traits_of({"i": "int64"}), {},
     ["optimize()", BYTE, f"{NARROWED})", f"{NARROWED}, narrow_interface=True)"]),
    (target_of("float", "int32"), traits_of({"x": "float", "d": "double"}, "int64"), {},
     ["optimize()", BYTE, "optimize(narrow=('int64', 'double'))",
      "optimize(narrow=('int64', 'double'), narrow_interface=True)"]),
    # Integers that are known to fit are narrowed though the target has int64.
    (target_of(*BASIC), traits_of({"i": "int64"}), {"i": (0.0, 7.0)},
     ["optimize()", BYTE, f"{NARROWED}, ranges={{'i': (0.0, 7.0)}})"]),
    (target_of(*BASIC), traits_of({"x": "float"}), {"i": (0.0, 7.0)}, ["optimize()", BYTE]),
    # A device leaves what it lacks to another; then it is narrowed, and inputs stay.
    (target_of(*BASIC, off_device=("int64",), fallback=target_of(*BASIC)), traits_of({"i": "int64"}), {},
     ["optimize()", BYTE, f"{NARROWED})"]),
    # An input of a narrow type that the target lacks becomes a number; one of double does not.
    (target_of(*BASIC), traits_of({"x": "float8e4m3fn"}), {}, ["optimize()", BYTE, "optimize(interface='wide')"]),
    (target_of(*BASIC), traits_of({"x": "float16"}), {}, ["optimize()", BYTE, "optimize(interface='wide')"]),
    (target_of(*BASIC), traits_of({"x": "int4"}), {}, ["optimize()", BYTE, "optimize(interface='wide')"]),
    (target_of(*BASIC), traits_of({"x": "uint16"}), {}, ["optimize()", BYTE]),
    (target_of(*BASIC), traits_of({"x": "float"}, "float16"), {}, ["optimize()", BYTE]),
    (target_of(*BASIC, "float16"), traits_of({"x": "float16"}), {}, ["optimize()", BYTE]),
]  # fmt: skip


def require_steps(
    target: Target, traits: Traits, ranges: Mapping[str, tuple[float, float]], expected: list[str]
) -> None:
    model = onnx_ir.from_proto(plain())
    for reorder in (False, True):
        assert shown(exact_steps(model, traits, target, ranges, reorder=reorder)) == expected


def test_the_exact_steps() -> None:
    check_all(require_steps, EXACT)


@pytest.mark.parametrize("domain", ["com.microsoft", "trt"])
def test_the_operators_of_a_vendor_are_tried_where_they_can_be_written(domain: str) -> None:
    model = onnx_ir.from_proto(four_bits())
    traits = traits_of_model(model)
    names = [*BASIC, "uint4", "int4", "float16"]
    for domains, reorder, tried in (((domain,), True, True), ((domain,), False, False), ((), True, False)):
        target = target_of(*names, domains=domains)
        steps = shown(exact_steps(model, traits, target, {}, reorder=reorder))
        vendor = [f"optimize(vendor='{domain}')"] * (tried and domain == "com.microsoft")
        assert steps == ["optimize()", *vendor, BYTE, *(step.replace(")", ", storage='byte')") for step in vendor)]
    linear = onnx_ir.from_proto(plain())
    assert len(shown(exact_steps(linear, traits, target_of(*names, domains=(domain,)), {}, reorder=True))) == 2


TO_FLOAT, TO_HALF, TO_BRAIN = (f"convert(to='{to}'" for to in ("float", "float16", "bfloat16"))
CONVERSIONS: list[tuple[Target, Traits, bool, list[str]]] = [
    (target_of("float"), traits_of({"x": "float"}), True, []),
    (target_of("float", "float16"), traits_of({"x": "float"}), True, [f"{TO_HALF})"]),
    (target_of("float", "float16", "bfloat16"), traits_of({"x": "float"}), True, [f"{TO_HALF})", f"{TO_BRAIN})"]),
    # From what the target computes itself only where any conversion may help.
    (target_of("float", "float16"), traits_of({"x": "float"}), False, []),
    (target_of("float", "float16"), traits_of({"x": "int64"}), True, []),
    (target_of("float"), traits_of({"x": "float"}, "bfloat16"), False, [f"{TO_FLOAT}, lower=('*',))"]),
    (target_of("float", "float16"), traits_of({"x": "float"}, "bfloat16"), False,
     [f"{TO_FLOAT}, lower=('*',))", f"{TO_HALF})"]),
    # The inputs and outputs that the target lacks change too, alone or with all others.
    (target_of("float"), traits_of({"x": "float", "d": "double"}), False,
     [f"{TO_FLOAT}, lower=('*',))", f"{TO_FLOAT}, lower=('*',), io='d')"]),
    (target_of("float"), traits_of({"x": "float", "d": "double", "e": "float16"}), False,
     [f"{TO_FLOAT}, lower=('*',))", f"{TO_FLOAT}, lower=('*',), io='d,e')"]),
    (target_of("float"), traits_of({"d": "double", "e": "double"}), False,
     [f"{TO_FLOAT}, lower=('*',))", f"{TO_FLOAT}, lower=('*',), io='convert')"]),
    (target_of("float"), traits_of({"x": "float", "d,e": "double"}), False,
     [f"{TO_FLOAT}, lower=('*',))", f"{TO_FLOAT}, lower=('*',), io='convert')"]),
    (target_of("float"), traits_of({"x": "int64", "d": "double"}), False,
     [f"{TO_FLOAT}, lower=('*',))", f"{TO_FLOAT}, lower=('*',), io='d')"]),
]  # fmt: skip


def require_conversions(target: Target, traits: Traits, from_any: bool, expected: list[str]) -> None:
    assert shown(conversions(traits, target, from_any=from_any)) == expected


def test_the_conversions() -> None:
    check_all(require_conversions, CONVERSIONS)


@pytest.mark.parametrize(
    ("types", "size", "to"),
    [
        (("float", "float16", "bfloat16"), 128, "float16"),
        (("float", "bfloat16"), 128, "bfloat16"),
        (("float",), 128, None),
        (("float", "float16"), 127, None),
    ],
)
def test_weights_alone_in_the_16_bits_that_the_target_has(types: tuple[str, ...], size: int, to: str | None) -> None:
    model = onnx.parser.parse_model(f"{HEAD} g (float[{size}] x) => (float[{size}] y) {{ y = Mul (x, w) }}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(size, np.float32), "w"))
    steps = list(weights_alone(onnx_ir.from_proto(model), target_of(*types)))
    assert steps == ([] if to is None else [Step("convert", {"to": to, "target": "t", "weights_only": True})])


def test_what_a_model_has() -> None:
    text = f"{HEAD} g (float[2] x, int8[2] i) => (double[2] y) {{ a = Cast <to = 10> (x) y = Cast <to = 11> (a) }}"
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    float_, half, double, byte = DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE, DataType.INT8
    assert traits_of_model(model) == Traits(
        frozenset({float_, half, double, byte}), {"x": float_, "i": byte, "y": double}
    )
    assert ports_of(model) == {"x": float_, "i": byte, "y": double}
