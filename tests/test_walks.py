"""Each function that walks a model finds in a branch, a loop, a scan, a function and a function's subgraph what it does
in the graph.

The golden cases of the passes are nested in `tests/passes/test_nested.py`.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.cli.report.savings import measure
from castsmith.ir.io.loading import from_proto
from castsmith.ir.walks import all_tensors, files_read
from castsmith.targets.target import Target
from tests.graphs.nesting import NESTS, Nest, in_function, in_if
from tests.lowering.check.test_target import AWAY, CASES, DEVICE, HEAD
from tests.lowering.check.test_types import HEAD as OPSET_21, MODELS as FOUND
from tests.sampling import check_all, sampled

DEEP: dict[str, Nest] = {
    "flat": lambda model: model,
    **NESTS,
    "If in function": lambda model: in_function(in_if(model)),
}
NESTED = [nest for nest in DEEP if nest != "flat"]
_IMPORTS = '"": {}, "com.microsoft": 1, "com.example": 1, "qonnx.custom_op.general": 1'
_F, _D, _B = (f"g ({name}[4] x) => ({name}[4] y)" for name in ("float", "double", "bfloat16"))
CPU, ANDROID, TENSORRT, OPENVINO = "onnxruntime-cpu", "onnxruntime-android", "tensorrt-10", "openvino-cpu"

# By name: the opset, the graph, and a target for which there is something to do.
MODELS: dict[str, tuple[int, str, str]] = {
    "float8": (21, f"{_F} {{ a = Cast <to = 17> (x) y = Cast <to = 1> (a) }}", ANDROID),
    "float8 quantizers": (21, f"{_F} <float s = {{0.5}}> {{ a = QuantizeLinear <output_dtype = 17> (x, s)"
                          " y = DequantizeLinear (a, s) }", ANDROID),
    "double": (21, f"{_D} {{ a = Mul (x, x) y = Sqrt (a) }}", "tensorrt-11"),
    "bfloat16": (21, f"{_B} {{ a = Mul (x, x) y = Sqrt (a) }}", CPU),
    "too new": (20, f"{_F} {{ y = Gelu (x) }}", CPU),
    "unknown operator": (21, f"{_F} {{ y = com.example.Mine (x) }}", CPU),
    "operator of a vendor": (21, f"{_F} {{ y = com.microsoft.QuickGelu (x) }}", TENSORRT),
    "trunc": (21, f"{_F} <float s = {{1.0}}, float z = {{0.0}}, float i = {{8.0}}, float o = {{4.0}}> {{"
              ' y = qonnx.custom_op.general.Trunc <rounding_mode = "FLOOR"> (x, s, z, i, o) }', CPU),
    "quant": (21, f"{_F} <float s = {{1.0}}, float z = {{0.0}}, float b = {{4.0}}> {{"
              ' y = qonnx.custom_op.general.Quant <rounding_mode = "ROUND", signed = 1, narrow = 0> (x, s, z, b) }',
              CPU),
    "lossy chain": (21, f"{_F} {{ a = Cast <to = 10> (x) y = Cast <to = 1> (a) }}", CPU),
    "rounded twice": (21, "g (double[4] x) => (float16[4] y) { a = Cast <to = 1> (x) y = Cast <to = 10> (a) }", CPU),
    "clip before a cast": (21, "g (float[4] x) => (float8e4m3fn[4] y) <float l = {-448}, float h = {448}> {"
                           " a = Clip (x, l, h) y = Cast <to = 17> (a) }", CPU),
    "undefined constant": (21, "g () => (uint8[1] y) { k = Constant <value = float[1] {300}> ()"
                           " y = Cast <to = 2> (k) }", CPU),
    "mixed types": (21, "g (float[4] x, int16[4] z) => (float[4] y) { y = Add (x, z) }", CPU),
    "type that is not allowed": (13, "g (uint64[4] x) => (uint64[4] y) { y = Neg (x) }", CPU),
    "integers in float": (21, "g (int64[4] x) => (int64[4] y) { a = Cast <to = 1> (x) y = Cast <to = 7> (a) }",
                          TENSORRT),
    "string": (21, "g (float[4] x) => (string[4] y) { y = Cast <to = 8> (x) }", TENSORRT),
    "transposed batch": (23, "g (float16[2, 3, 4] x, float16[4, 5] z) => (float16[A, B, C] y) {"
                         " t = Transpose <perm = [1, 0, 2]> (x) y = MatMul (t, z) }", CPU),
    "transposed cast": (21, "g (float[4, 4] x, float16[4, 4] z) => (float16[4, 4] y) { t = Transpose (x)"
                        " c = Cast <to = 10> (t) y = MatMul (c, z) }", OPENVINO),
}  # fmt: skip


def text_of(name: str) -> str:
    opset, graph, _ = MODELS[name]
    return f"<ir_version: 10, opset_import: [{_IMPORTS.format(opset)}]> {graph}"


def flat(name: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text_of(name))


def twice(nest: str) -> int:
    """Return how often the graph is there."""
    return 2 if nest in ("If", "If in function") else 1


OF_MODEL = ("target-unknown", "opset-too-new", "opset", "inline-functions")
"""What is said once of a model, and not of its nodes."""


CHECKED: dict[str, tuple[str, Target | str | None]] = {
    **{name: (text_of(name), target) for name, (_, _, target) in MODELS.items()},
    **{f"of a target: {name}": (f"{HEAD} {graph}", target) for name, (target, graph, _) in CASES.items()},
    **{f"of a device: {name}": (f"{HEAD} {graph}", DEVICE) for name, (graph, _) in AWAY.items()},
    **{f"of a model: {name}": (f"{OPSET_21} {graph}", None) for name, (graph, _) in FOUND.items()},
}
"""The models of the tests of findings."""


@cache
def codes(name: str, nest: str) -> set[str]:
    text, target = CHECKED[name]
    return {each.code for each in castsmith.check(DEEP[nest](onnx.parser.parse_model(text)), target=target)}


@pytest.mark.usefixtures("untried")
def test_check_finds_the_same() -> None:
    def require_same(name: str, nest: str) -> None:
        lacking = codes(name, "flat") - codes(name, nest) - {*OF_MODEL}
        # A function does not declare the types of its values.
        assert lacking <= ({"value-type-mismatch"} if nest.startswith("function") else set()), name

    check_all(require_same, sampled("nested models of findings", product(CHECKED, NESTED), 0, cover=lambda case: case))


@cache
def rules(name: str, nest: str) -> Counter[str]:
    result = castsmith.optimize(DEEP[nest](flat(name)), target=MODELS[name][2], provenance=False)
    counts = Counter(each.rule for each in result.rewrites) + Counter(f"not {each.rule}" for each in result.refusals)
    return Counter({rule: count for rule, count in counts.items() if rule not in OF_MODEL})


def test_optimize_does_the_same() -> None:
    def require_same(name: str, nest: str) -> None:
        once, found = rules(name, "flat"), rules(name, nest)
        # A function that is called twice is changed once, or inlined first.
        most = 2 if nest == "function in If" else twice(nest)
        assert found.keys() == once.keys()
        assert all(twice(nest) * count <= found[rule] <= most * count for rule, count in once.items()), (once, found)

    check_all(require_same, sampled("nested models to optimize", product(MODELS, NESTED), 120, cover=lambda case: case))


PLAIN = f"{OPSET_21} g (float[4] x) => (float[4] y) <float[4] w = {{1, 2, 3, 4}}> {{ a = Mul (x, w)"
LARGE = f"{OPSET_21} g (float[512] x) => (float[512] y) {{ y = Mul (x, w) }}"


def plain(nest: str, last: str) -> onnx.ModelProto:
    return DEEP[nest](
        onnx.parser.parse_model(f"{PLAIN} b = Cast <to = 10> (a) c = Cast <to = 1> (b) y = {last} (c) }}")
    )


@pytest.mark.parametrize("nest", DEEP)
def test_other_functions_find_the_same(nest: str) -> None:
    relu, neg = plain(nest, "Relu"), plain(nest, "Neg")
    assert castsmith.verify(relu, relu, sets=1, prove=True, engine="reference").equal
    assert castsmith.verify(relu, neg, sets=1, engine="reference").different
    assert not castsmith.diff(relu, relu)
    assert castsmith.diff(relu, neg).nodes_changed + len(castsmith.diff(relu, neg).changes) >= 1
    found = castsmith.bounds(neg, ranges={"x": (0, 1)})[neg.graph.output[0].name]
    assert (found.low, found.high) == (-4, 0)
    size = measure(from_proto(relu))
    assert (size.casts, size.tensor_bytes >= 16) == (2 * twice(nest), True)
    half = castsmith.convert(relu, to="float16", ranges={"x": (0, 1)})
    stored = [each.dtype for each in all_tensors(half.model) if each.size == 4]
    assert stored == [DataType.FLOAT16] * twice(nest)


@pytest.mark.parametrize("nest", DEEP)
def test_weights_are_found_in_each_place(nest: str, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(LARGE)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(512, np.float32), "w"))
    path, again = tmp_path / "m.onnx", tmp_path / "again.onnx"
    model = DEEP[nest](proto)
    halves = castsmith.convert(model, to="float16", weights_only=True).model
    assert [each.dtype for each in all_tensors(halves) if each.size == 512] == [DataType.FLOAT16] * twice(nest)
    castsmith.save(model, path, external_data="w.bin")
    if nest in ("function", "function in If"):  # a Constant, whose tensor stays in the file
        assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]
        return
    assert (tmp_path / "w.bin").stat().st_size >= 2048 * twice(nest)
    assert path.stat().st_size < 1500
    assert files_read(castsmith.load(path)) == {tmp_path / "w.bin"}
    castsmith.save(castsmith.load(path), again, reference_data=True)
    assert castsmith.verify(path, again, sets=1, engine="reference").equal
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.onnx", "m.onnx", "w.bin"]
