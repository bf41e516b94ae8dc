"""Models of opset 6 to 15 at a newer one: the old tests of onnx give what they state, and each change has a case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.ops.changes import SAME_FROM_9_TO_13
from castsmith.ir.records import Records, Severity
from castsmith.lowering.opset.raising import (
    _STEPS,  # pyright: ignore[reportPrivateUsage]
    FIRST_WITH_BFLOAT16,
    opset_needed,
)
from castsmith.lowering.opset.version import RaiseOpset, move_to, opset_asked
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target, load_target
from tests.ir.ops.models import schemas_by_operator
from tests.sampling import check_all

_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
_OLD = sorted(
    path for kind in ("pytorch-operator", "pytorch-converted") for path in (_DATA / kind).glob("*/model.onnx")
)


_OLDEST_OF_TENSORRT = 9


def raised(proto: onnx.ModelProto, *, to: int = _OLDEST_OF_TENSORRT) -> tuple[onnx.ModelProto, Records]:
    """The model at opset 9, which TensorRT needs, or at opset 13, which bfloat16 needs."""
    model = onnx_ir.from_proto(proto)
    precision = onnx_ir.DataType.BFLOAT16 if to == FIRST_WITH_BFLOAT16 else None
    session = Session(model)
    asked = opset_asked(session, load_target("tensorrt-11"), precision)
    records = Records() if asked is None else RaiseOpset(*asked).run(session).records
    return onnx_ir.to_proto(session.model), records


def run(proto: onnx.ModelProto, feeds: list[Any]) -> list[Any]:
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [value.name for value in proto.graph.input][: len(feeds)]
    return session.run(None, dict(zip(names, feeds, strict=True)))


def check_old(path: Path, to: int) -> None:
    """What the model gives at the opset is what the data states for opset 6, as closely as onnx itself asks."""
    found, records = raised(onnx.load(path), to=to)
    assert not records.refusals, records.refusals
    assert [entry.version for entry in found.opset_import] == [to]
    onnx.checker.check_model(found, full_check=True)
    assert records.rewrites[-1].rule == "opset"
    for folder in sorted(path.parent.glob("test_data_set_*")):
        feeds, stated = (
            [onnx.numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes()))
             for file in sorted(folder.glob(f"{side}_*.pb"))]
            for side in ("input", "output")
        )  # fmt: skip
        for a, b in zip(run(found, feeds), stated, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_the_old_tests_of_onnx_give_what_they_state() -> None:
    pytest.importorskip("onnxruntime")
    old = [path for path in _OLD if onnx.load(path).opset_import[0].version < _OLDEST_OF_TENSORRT]
    assert len(old) > 90
    check_all(check_old, [(path, to) for path in old for to in (_OLDEST_OF_TENSORRT, FIRST_WITH_BFLOAT16)])


def old_model(
    opset: int,
    op_type: str,
    shapes: Sequence[tuple[int, ...] | None],
    weights: dict[str, Any] | None = None,
    **given: Any,
) -> onnx.ModelProto:
    """A model of one node; below opset 9 the weights are inputs, too, as IR version 3 wants it."""
    names = [f"x{index}" for index in range(len(shapes))]
    inputs = [onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
              for name, shape in zip(names, shapes, strict=True)]  # fmt: skip
    held = [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    if opset < _OLDEST_OF_TENSORRT:
        inputs += [onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in held]
    node = onnx.helper.make_node(op_type, [*names, *(weights or {})], ["y"], **given)
    dtype = TensorProto.BOOL if op_type in ("Equal", "Greater", "Less") else TensorProto.FLOAT
    dtype = TensorProto.INT32 if op_type == "Cast" else dtype
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.helper.make_tensor_value_info("y", dtype, None)], held)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)],
                                  ir_version=3 if opset < _OLDEST_OF_TENSORRT else 4)  # fmt: skip


def drawn(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


_X, _C = drawn(2, 3, 4, 5), drawn(3)
_CASES: dict[str, tuple[onnx.ModelProto, list[Any], Any]] = {
    "an operand from an axis on": (
        old_model(6, "Add", [(2, 3, 4, 5), (3,)], broadcast=1, axis=1), [_X, _C], _X + _C.reshape(3, 1, 1)),
    "two dimensions from an axis on": (
        old_model(6, "Mul", [(2, 3, 4, 5), (3, 4)], broadcast=1, axis=1),
        [_X, drawn(3, 4)], _X * drawn(3, 4).reshape(3, 4, 1)),
    "an axis from the end": (
        old_model(6, "Sub", [(2, 3, 4, 5), (3, 4)], broadcast=1, axis=-3),
        [_X, drawn(3, 4)], _X - drawn(3, 4).reshape(3, 4, 1)),
    "one number": (old_model(6, "Div", [(2, 3), (1,)], broadcast=1, axis=0), [_X[0, :2, 0, :3], _C[:1]],
                   _X[0, :2, 0, :3] / _C[0]),
    "the last dimensions": (old_model(6, "Pow", [(2, 3), (3,)], broadcast=1), [abs(_X[0, :2, 0, :3]), _C],
                            abs(_X[0, :2, 0, :3]) ** _C),
    "comparisons": (old_model(1, "Greater", [(2, 3, 4, 5), (3,)], broadcast=1, axis=1), [_X, _C],
                    _C.reshape(3, 1, 1) < _X),
    "no broadcasting": (old_model(6, "Add", [(3,), (3,)]), [_C, _C], _C + _C),
    "slopes of channels": (old_model(6, "PRelu", [(2, 3, 4, 5), (3,)]), [_X, _C],
                           np.where(_X < 0, _X * _C.reshape(3, 1, 1), _X)),
    "one slope": (old_model(6, "PRelu", [(2, 3), (1,)]), [_X[0, :2, 0, :3], _C[:1]],
                  np.where(_X[0, :2, 0, :3] < 0, _X[0, :2, 0, :3] * _C[0], _X[0, :2, 0, :3])),
    "scales": (old_model(7, "Upsample", [(1, 1, 2, 2)], scales=[1.0, 1.0, 2.0, 3.0]), [drawn(1, 1, 2, 2)],
               drawn(1, 1, 2, 2).repeat(2, 2).repeat(3, 3)),
    "sums": (old_model(6, "Sum", [(3,), (3,)]), [_C, _C], _C + _C),
    "dropout in test mode": (old_model(6, "Dropout", [(3,)], is_test=1), [_C], _C),
    "a product with a row": (old_model(6, "Gemm", [(2, 3), (3, 4), (4,)], broadcast=1),
                             [drawn(2, 3), drawn(3, 4), drawn(4)], drawn(2, 3) @ drawn(3, 4) + drawn(4)),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_each_change(name: str) -> None:
    pytest.importorskip("onnxruntime")
    proto, feeds, expected = _CASES[name]
    for to in (_OLDEST_OF_TENSORRT, FIRST_WITH_BFLOAT16):
        found, records = raised(proto, to=to)
        assert not records.refusals
        assert found.opset_import[0].version == to
        np.testing.assert_allclose(run(found, feeds)[0], expected, rtol=1e-6, atol=1e-6)


_NEWER: dict[str, tuple[onnx.ModelProto, list[Any]]] = {
    "slices": (old_model(9, "Slice", [(3, 4, 5)], starts=[0, -3], ends=[2, 99], axes=[0, 2]), [drawn(3, 4, 5)]),
    "slices of all axes": (old_model(9, "Slice", [(3, 4)], starts=[1, 0], ends=[3, -1]), [drawn(3, 4)]),
    "scales of opset 9": (old_model(9, "Upsample", [(1, 1, 2, 2)], {"s": np.array([1, 1, 2, 3], np.float32)}),
                          [drawn(1, 1, 2, 2)]),
    "sizes that round down": (old_model(10, "Resize", [(1, 1, 4, 4)], {"s": np.array([1, 1, 1.3, 1.7], np.float32)}),
                              [drawn(1, 1, 4, 4)]),
    "sizes that round up": (old_model(10, "Resize", [(1, 1, 4, 4)], {"s": np.array([1, 1, 0.6, 1], np.float32)}),
                            [drawn(1, 1, 4, 4)]),
    "a linear size": (old_model(10, "Resize", [(1, 1, 4, 4)], {"s": np.array([1, 1, 2, 2], np.float32)},
                                mode="linear"), [drawn(1, 1, 4, 4)]),
    "a lower bound": (old_model(10, "Clip", [(3,)], min=-0.5), [np.array([-1, 0, np.inf], np.float32)]),
    "an upper bound": (old_model(10, "Clip", [(3,)], max=0.5), [np.array([-np.inf, 0, 1], np.float32)]),
    "pads with a value": (old_model(10, "Pad", [(2, 3)], pads=[0, 1, 2, 0], value=2.5), [drawn(2, 3)]),
    "reflected pads": (old_model(10, "Pad", [(2, 3)], pads=[0, 1, 0, 1], mode="reflect"), [drawn(2, 3)]),
    "scattered": (old_model(10, "Scatter", [(3, 3)], {"i": np.array([[0, 2, 1]]), "u": drawn(1, 3)}), [drawn(3, 3)]),
    "dropout": (old_model(10, "Dropout", [(3,)], ratio=0.3), [_C]),
    "softmax of the rest": (old_model(11, "Softmax", [(2, 3, 4)]), [drawn(2, 3, 4)]),
    "softmax of all": (old_model(12, "LogSoftmax", [(2, 3, 4)], axis=0), [drawn(2, 3, 4)]),
    "softmax of the last": (old_model(12, "Softmax", [(2, 3, 4)], axis=2), [drawn(2, 3, 4)]),
    "hardmax of the rest": (old_model(11, "Hardmax", [(2, 3, 4)]), [drawn(2, 3, 4)]),
    "axes that go": (old_model(12, "Squeeze", [(1, 3, 1)], axes=[0, 2]), [drawn(1, 3, 1)]),
    "all axes that go": (old_model(11, "Squeeze", [(1, 3, 1)]), [drawn(1, 3, 1)]),
    "axes that come": (old_model(11, "Unsqueeze", [(3, 4)], axes=[0, 3]), [drawn(3, 4)]),
    "sums of axes": (old_model(12, "ReduceSum", [(2, 3, 4)], axes=[1], keepdims=0), [drawn(2, 3, 4)]),
    "sums of all": (old_model(11, "ReduceSum", [(2, 3, 4)]), [drawn(2, 3, 4)]),
    "a deconvolution": (old_model(10, "ConvTranspose", [(1, 2, 4, 4)], {"w": drawn(2, 3, 2, 2)}, strides=[2, 2]),
                        [drawn(1, 2, 4, 4)]),
    "pools": (old_model(9, "AveragePool", [(1, 1, 5, 5)], kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
              [drawn(1, 1, 5, 5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", _NEWER)
def test_each_change_up_to_opset_13_keeps_every_bit(name: str) -> None:
    pytest.importorskip("onnxruntime")
    proto, feeds = _NEWER[name]
    found, records = raised(proto, to=FIRST_WITH_BFLOAT16)
    assert not records.refusals
    assert found.opset_import[0].version == FIRST_WITH_BFLOAT16
    before, after = run(proto, feeds)[0], run(found, feeds)[0]
    assert (before.shape, before.tobytes()) == (after.shape, after.tobytes())


def test_a_conversion_to_bfloat16_raises_the_opset() -> None:
    for opset in (7, 9, 11, 12, 13):
        proto = onnx.parser.parse_model(
            f'<ir_version: 4, opset_import: ["": {opset}]> g (float[2, 3] x) => (float[2, 3] y) {{ y = Softmax (x) }}'
        )
        for target in (None, "openvino-cpu"):
            result = castsmith.convert(proto, to="bfloat16", target=target)
            assert result.model.opset_imports[""] == FIRST_WITH_BFLOAT16
            assert not [each for each in castsmith.check(result.model) if each.severity.name == "ERROR"]
            assert [each.rule for each in result.rewrites].count("opset") == (opset < FIRST_WITH_BFLOAT16)


@pytest.mark.parametrize(
    ("proto", "reason"),
    [
        (old_model(6, "Dropout", [(3,)]), "draws random numbers"),
        (old_model(6, "PRelu", [(2, 3, 4), (4, 1)]), "slope of PRelu"),
        (old_model(6, "PRelu", [None, (3,)]), "slope of PRelu"),
        (old_model(6, "Tile", [(3,), (1,), (1,)]), None),
        (old_model(1, "Tile", [(3,), (1,), (1,)]), "Tile changed in opset 6"),
        (old_model(7, "BatchNormalization", [(2, 3, 4), (3, 4), (3, 4), (3, 4), (3, 4)], spatial=0), "per channel"),
        (old_model(10, "ConvTranspose", [(1, 2, 4, 4), (2, 3, 3, 3)], auto_pad="SAME_UPPER"), "on the other side"),
        (old_model(10, "Resize", [(1, 1, 4, 4)], {"s": np.array([1, 1, 0.6, 1.7], np.float32)}), "rounds up where"),
        (old_model(9, "OneHot", [(3,), (1,), (2,)]), "changes of OneHot"),
    ],
)
def test_what_has_no_equivalent_is_refused(proto: onnx.ModelProto, reason: str | None) -> None:
    before = proto.SerializeToString()
    newer = proto.opset_import[0].version >= _OLDEST_OF_TENSORRT
    found, records = raised(proto, to=FIRST_WITH_BFLOAT16 if newer else _OLDEST_OF_TENSORRT)
    if reason is None:
        assert not records.refusals
        return
    assert any(reason in each.reason for each in records.refusals)
    assert found.opset_import[0].version == onnx.ModelProto.FromString(before).opset_import[0].version
    assert not records.rewrites


def test_regions_of_opset_10_keep_their_coordinates() -> None:
    boxes = np.array([[0.3, 0.7, 6.2, 7.0], [1.0, 1.0, 5.0, 5.5]], np.float32)
    model = onnx.parser.parse_model("""<ir_version: 6, opset_import: ["" : 10]>
        g (float[1, 2, 9, 9] x, float[2, 4] r, int64[2] b) => (float[2, 2, 3, 3] y) {
            y = RoiAlign <output_height = 3, output_width = 3, sampling_ratio = 2> (x, r, b)
        }""")
    feeds = [drawn(1, 2, 9, 9), boxes, np.zeros(2, np.int64)]
    ir_model = onnx_ir.from_proto(model)
    assert move_to(Session(ir_model), 16, "", Records())
    newer = onnx_ir.to_proto(ir_model)
    np.testing.assert_array_equal(run(newer, feeds), run(model, feeds))
    (mode,) = (each for each in newer.graph.node[0].attribute if each.name.startswith("coordinate"))
    mode.s = b"half_pixel"
    kept = castsmith.optimize(newer, target=Target("old", newest_opset=15, newest_ir_version=8))
    assert kept.model.graph.opset_imports[""] == 16  # opset 15 has no such coordinates


def test_an_operator_that_the_opset_lacks_raises_it() -> None:
    model = onnx.parser.parse_model("""<ir_version: 7, opset_import: ["" : 12]>
        g (float[2, 4] x) => (float[2] y) { a = Gelu (x) y = ReduceMean <axes = [1], keepdims = 0> (a) }""")
    found = castsmith.optimize(model, target="onnxruntime-cpu")
    assert found.model.graph.opset_imports[""] == 20
    severities = {each.severity for each in castsmith.check(found.model, target="onnxruntime-cpu")}
    assert Severity.ERROR not in severities
    x = drawn(2, 4)
    stated: Any = ReferenceEvaluator(found.proto).run(None, {"x": x})
    np.testing.assert_allclose(run(found.proto, [x])[0], stated[0], rtol=1e-5)


def test_newer_models_and_other_targets_stay() -> None:
    proto = old_model(9, "Add", [(3,), (3,)])
    assert not raised(proto)[1].rewrites
    seven = old_model(7, "Add", [(3,), (3,)])
    assert castsmith.optimize(seven, target="onnxruntime-cpu").model.opset_imports[""] == 7
    assert castsmith.optimize(seven).model.opset_imports[""] == 7
    for made in (castsmith.optimize(seven, target="tensorrt-11"), castsmith.fit(seven, target="tensorrt-11"),
                 castsmith.convert(seven, to="float16", target="tensorrt-11")):  # fmt: skip
        assert made.model.opset_imports[""] == _OLDEST_OF_TENSORRT
        assert any(each.rule == "opset" and "opset 9" in each.after for each in made.rewrites)
        assert not [each for each in castsmith.check(made.model, target="tensorrt-11") if each.severity.name == "ERROR"]


@pytest.mark.parametrize("bodies", [("a = Neg (x)", "y = Add (a, a)"), ("a = Add (x, x)", "y = Neg (a)")], ids=str)
def test_an_operator_that_needs_a_later_opset_is_found_among_others(bodies: tuple[str, str]) -> None:
    """ONNX Runtime adds int8 from opset 14 on; the later of two opsets is the one that is needed."""
    model = onnx_ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["": 13]> g (int8[2] x) => (int8[2] y) {{ {" ".join(bodies)} }}'
    )
    types = infer_element_types(model, PromotionRules()).types
    opset, why = opset_needed(model, load_target("onnxruntime-cpu"), types, 13)
    assert (opset, why) == (14, "onnxruntime-cpu runs Add of int8 from opset 14 on")
    assert opset_needed(model, load_target("onnxruntime-cpu"), types, 14) == (14, "")


_TANH, _RAISED = "(float[2] x) => (y) { y = Tanh (x) }", "t runs {} of {} from opset {} on"
_QUANTIZED = "(float[2] x, float s, uint8 z) => (uint8[2] y) { y = QuantizeLinear (x, s, z) }"
_ROUND = (11, "arithmetic replaces QuantizeLinear, which needs Round")
_NEEDED: dict[str, tuple[str, int, dict[str, Any], tuple[int, str]]] = {
    **{
        f"a kernel of opset 15 where {newest} is the newest": (
            _TANH, 13, {"newest_opset": newest, "kernels": {"float": {"Tanh": 15}}},
            (15, _RAISED.format("Tanh", "float", 15)) if newest >= 15 else (13, ""),
        )
        for newest in (13, 14, 15, 16)
    },
    "a kernel of the present opset": (_TANH, 13, {"kernels": {"float": {"Tanh": 13}}}, (13, "")),
    "a kernel of the next opset": (
        _TANH, 13, {"kernels": {"float": {"Tanh": 14}}}, (14, _RAISED.format("Tanh", "float", 14))),
    "no kernel at any opset": (_TANH, 13, {"kernels": {"float": {"Neg": 13}}}, (13, "")),
    "kernels that are unknown": (_TANH, 13, {"kernels": None}, (13, "")),
    "the same operator of two types": (
        "(float[2] x, double[2] v) => (y, z) { y = Tanh (x) z = Tanh (v) }", 13,
        {"kernels": {"float": {"Tanh": 13}, "double": {"Tanh": 15}}}, (15, _RAISED.format("Tanh", "double", 15))),
    "a type before one that needs more": (
        "(float[2] x, double[2] v) => (y, z) { z = Tanh (v) y = Tanh (x) }", 13,
        {"kernels": {"float": {"Tanh": 15}, "double": {"Tanh": 13}}}, (15, _RAISED.format("Tanh", "float", 15))),
    **{
        f"a function of opset {opset}": (
            f"""(float[2] x) => (float[2] y) {{ y = local.f (x) }}
                <domain: "local", opset_import: ["" : {opset}]> f (a) => (b) {{ b = Tanh (a) }}""", 13,
            {"kernels": {"float": {"Tanh": 15}}}, needed,
        )
        for opset, needed in ((12, (13, "")), (13, (15, _RAISED.format("Tanh", "float", 15))))
    },
    "a type that the target lacks": (
        "(bfloat16[2] x) => (y) { y = Tanh (x) }", 13, {"lacks": ["bfloat16"], "kernels": {"float": {"Tanh": 15}}},
        (15, _RAISED.format("Tanh", "float", 15))),
    "the type of a later operand": (
        "(bool[2] c, double[2] x) => (y) { y = Where (c, x, x) }", 13,
        {"kernels": {"bool": {"Where": 14}, "double": {"Where": 15}}}, (15, _RAISED.format("Where", "double", 15))),
    "the type of the result": (
        "() => (y) { y = RandomNormal <shape = [2]> () }", 13, {"kernels": {"float": {"RandomNormal": 15}}},
        (15, _RAISED.format("RandomNormal", "float", 15))),
    "a quantizer without a kernel": (_QUANTIZED, 10, {"kernels": {"uint8": {"Cast": 6}}}, _ROUND),
    "a quantizer with one": (_QUANTIZED, 10, {"kernels": {"uint8": {"QuantizeLinear": 10}}}, (10, "")),
    "a quantizer where Round exists": (_QUANTIZED, 11, {"kernels": {"uint8": {"Cast": 6}}}, (11, "")),
}  # fmt: skip


@pytest.mark.parametrize("name", _NEEDED)
def test_the_opset_that_a_target_needs(name: str) -> None:
    body, now, statements, needed = _NEEDED[name]
    model = onnx_ir.from_onnx_text(f'<ir_version: 8, opset_import: ["": {now}, "local": 1]> g {body}')
    types = infer_element_types(model, PromotionRules()).types
    stated: dict[str, Any] = {"newest_opset": 20, "newest_ir_version": 9, "lacks": [], **statements}
    assert opset_needed(model, Target("t", **stated), types, now) == needed


def test_every_change_of_opset_7_to_13_has_its_step_was_read_or_is_refused() -> None:
    """The schemas list the versions; of the older opsets each has a step, and the texts of the newer ones were read."""
    versions = {key[1]: {each.since_version for each in found} for key, found in schemas_by_operator().items()
                if not key[0]}  # fmt: skip
    changed = {(op_type, since) for op_type, every in versions.items() for since in every - {min(every)}}
    refused = {("Scan", 9), ("Upsample", 7)}
    assert {key for key in _STEPS if key[1] < 10} == {key for key in changed if 6 < key[1] < 10} - refused
    assert _STEPS.keys() <= changed
    not_read = {
        "ConvTranspose",
        "NegativeLogLikelihoodLoss",
        "OneHot",
        "Scatter",
        "SoftmaxCrossEntropyLoss",
        "Upsample",
    }
    assert {op_type for op_type, since in changed if 10 <= since <= 13} - not_read == SAME_FROM_9_TO_13
