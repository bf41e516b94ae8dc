"""Operators that the evaluator computes itself, promoted operands, limits, and what it refuses in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.conversions import Tensor, bits_of
from castsmith.verification.evaluate.engines import Engine, EngineError
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.limits import refuse_huge_results

HEAD = """<ir_version: 10, opset_import: ["" : %d, "qonnx.custom_op.general" : 1, "com.microsoft" : 1, "f" : 1]> """


def run(text: str, opset: int = 21, rules: PromotionRules | None = None, **feeds: Any) -> list[Any]:
    model = onnx_ir.from_proto(onnx.parser.parse_model(HEAD % opset + text))
    found = Evaluator(model, rules or PromotionRules(), Engine("reference")).run(feeds)
    return list(found.values())


def arrays(*given: Any) -> list[Any]:
    return [each.array.tolist() if isinstance(each, Tensor) else each for each in given]


_X = np.array([-3.0, -0.5, 0.5, 0.0, 9.0], np.float32)


def quantized(node: str, **constants: float) -> list[float]:
    names = "".join(f", float {name}" for name in constants)
    text = f"g (float[5] x{names}) => (float[5] y) {{ y = qonnx.custom_op.general.{node} }}"
    feeds: dict[str, Any] = {name: np.array(number, np.float32) for name, number in constants.items()}
    (found,) = run(text, x=_X, **feeds)
    assert found.array.dtype == np.float32
    return found.array.tolist()


@pytest.mark.parametrize(
    ("settings", "numbers", "expected"),
    [
        # x / 0.5 = -6, -1, 1, 0, 18, in three bits
        ("signed = 1, narrow = 0", (0.5, 0, 3), [-2.0, -0.5, 0.5, 0.0, 1.5]),
        ("signed = 1, narrow = 1", (0.5, 0, 3), [-1.5, -0.5, 0.5, 0.0, 1.5]),
        ("signed = 0, narrow = 0", (0.5, 0, 3), [0.0, 0.0, 0.5, 0.0, 3.5]),
        ("signed = 0, narrow = 1", (0.5, 0, 3), [0.0, 0.0, 0.5, 0.0, 3.0]),
        # with a zero point of 1: -5, 0, 2, 1, 19
        ("signed = 1, narrow = 0", (0.5, 1, 3), [-2.5, -0.5, 0.5, 0.0, 1.0]),
        # x / 4: -0.75, -0.125, 0.125, 0, 2.25
        ('signed = 1, narrow = 0, rounding_mode = "FLOOR"', (4, 0, 3), [-4.0, -4.0, 0.0, 0.0, 8.0]),
        ('signed = 1, narrow = 0, rounding_mode = "CEIL"', (4, 0, 3), [0.0, 0.0, 4.0, 0.0, 12.0]),
        # one bit: the sign
        ("signed = 1, narrow = 0", (2, 0, 1), [-2.0, -2.0, 2.0, 2.0, 2.0]),
        ("signed = 0, narrow = 0", (2, 0, 1), [0.0, 0.0, 0.0, 0.0, 2.0]),
    ],
)
@pytest.mark.parametrize("name", ["Quant", "IntQuant"])
def test_quantizers_of_qonnx(name: str, settings: str, numbers: tuple[float, ...], expected: list[float]) -> None:
    given = dict(zip(("s", "z", "b"), numbers, strict=True))
    assert quantized(f"{name} <{settings}> (x, s, z, b)", **given) == expected


def test_the_bipolar_quantizer() -> None:
    assert quantized("BipolarQuant (x, s)", s=0.25) == [-0.25, -0.25, 0.25, 0.25, 0.25]


_SEQUENCES = [
    ("s = SequenceConstruct (x) y = Identity (s)", "seq(float[2]) y", None),
    ("s = SequenceConstruct (x) y = Neg (s)", "float[2] y", r"^g: .*Neg gets a sequence, which is not supported\.$"),
    ("s = SequenceEmpty () y = ConcatFromSequence <axis = 0> (s)", "float[2] y",
     r"^g: .*ConcatFromSequence cannot be run: need at least one array to concatenate$"),
    ("o = Optional <type = float[2]> () y = OptionalGetElement (o)", "float[2] y",
     r"^g: .*OptionalGetElement gets an empty optional\.$"),
    ("z = Constant <value = int64[2] {1, 5}> () y = SplitToSequence (x, z)", "seq(float[2]) y",
     r"^g: .*SplitToSequence cannot split 2 elements into \[1, 5\]\.$"),
    ("a = Reshape (x, r) s = SequenceConstruct (x, a) y = ConcatFromSequence <axis = 0> (s)", "float[2] y",
     r"^g: .*cannot be (joined|run)"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "output", "text"), _SEQUENCES)
def test_sequences_that_are_refused(body: str, output: str, text: str | None) -> None:
    model = f"g (float[2] x) => ({output}) <int64 i = {{0}}, int64[2] r = {{1, 2}}> {{ {body} }}"
    x = np.ones(2, np.float32)
    if text is None:
        (found,) = run(model, x=x)
        assert [each.array.tolist() for each in found] == [[1, 1]]
        return
    with pytest.raises(EngineError, match=text):
        run(model, x=x)


def node_of(op_type: str, domain: str = "", count: int = 2, **given: int) -> onnx_ir.Node:
    attributes = [onnx_ir.AttrInt64(name, number) for name, number in given.items()]
    return onnx_ir.Node(domain, op_type, [onnx_ir.Value(name=f"x{i}") for i in range(count)], attributes)


_MILLION, _HUGE = np.array([10**6], np.int64), 10**5


@pytest.mark.parametrize(
    ("op_type", "operands", "refused"),
    [
        ("ConstantOfShape", [np.array([_HUGE, _HUGE])], True),
        ("ConstantOfShape", [np.array([10, 10])], False),
        ("Expand", [np.zeros(1), np.array([_HUGE, _HUGE])], True),
        ("Tile", [np.zeros(10), np.array([10**10])], True),
        ("Tile", [np.zeros(10), np.array([2])], False),
        ("Range", [np.array(0), np.array(10**12), np.array(1)], True),
        ("Range", [np.array(0), np.array(-(10**12)), np.array(-1)], True),
        ("Range", [np.array(0), np.array(9), np.array(1)], False),
        ("Pad", [np.zeros((2, 2)), np.array([0, 0, _HUGE, _HUGE])], True),
        ("Pad", [np.zeros((2, 2)), np.array([0, 0, 1, 1])], False),
        ("Resize", [np.zeros((2, 2)), None, np.array([1e5, 1e5], "f")], True),
        ("Resize", [np.zeros((2, 2)), None, np.array([2.0, 2.0], "f")], False),
        ("Resize", [np.zeros((2, 2)), None, None, np.array([_HUGE, _HUGE])], True),
        ("MatMul", [np.zeros((_HUGE, 1)), np.zeros((1, _HUGE))], True),
        ("MatMul", [np.zeros((2, 1)), np.zeros((1, 2))], False),
        ("Add", [np.zeros((_HUGE, 1)), np.zeros((1, _HUGE))], True),
        ("Add", [np.zeros((2, 1)), np.zeros((1, 2))], False),
        ("Where", [np.zeros((_HUGE, 1), np.bool_), np.zeros(()), np.zeros((1, _HUGE))], True),
        ("RoiAlign", [np.zeros((1, 1, 2, 2)), np.array([[0, 0, 1e6, 1e6]])], True),
        ("RoiAlign", [np.zeros((1, 1, 2, 2)), np.array([[0, 0, 2.0, 2.0]])], False),
        ("RoiAlign", [np.zeros((1, 1, 2, 2)), None], False),
        ("Expand", [np.array(["a"], object), np.array([_HUGE, _HUGE])], True),
        ("Expand", [np.array([True]), np.array([_HUGE, _HUGE])], True),
        ("Gather", [np.zeros((1, _HUGE)), np.zeros(_HUGE, np.int64)], True),
        ("Gather", [np.zeros((9, 2)), np.zeros(4, np.int64)], False),
        ("GatherND", [np.zeros((1, _HUGE)), np.zeros((_HUGE, 1), np.int64)], True),
        ("Gemm", [np.zeros((_HUGE, 1)), np.zeros((1, _HUGE))], True),
        ("Gemm", [np.zeros((2, 1)), np.zeros((1, 2))], False),
        ("Neg", [np.zeros(3)], False),
    ],
)  # fmt: skip
def test_results_that_are_too_large(op_type: str, operands: list[Any], refused: bool) -> None:
    node = node_of(op_type, count=len(operands))
    schema = onnx.defs.get_schema(op_type, 21, "")
    if not refused:
        refuse_huge_results(node, operands, schema)
        return
    with pytest.raises(EngineError, match=rf"^{op_type} would make .* elements, which exceeds the limit\.$"):
        refuse_huge_results(node, operands, schema)


def test_bits() -> None:
    assert bits_of(np.array([1.0, -0.0], np.float32)).tolist() == [0x3F800000, 0x80000000]
    assert bits_of(np.array([1 + 2j], np.complex64)).tolist() == [[0x3F800000, 0x40000000]]
    assert bits_of(np.array([[True]])).tolist() == [[1]]
    assert bits_of(np.array([[b"a", "b"], [1, b"\xff"]], object)).tolist() == [["a", "b"], ["1", "\ufffd"]]
