"""Operators that the evaluator computes itself, promoted operands, limits, and what it refuses in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.conversions import Tensor, bits_of
from castsmith.verification.evaluate.engines import Engine, EngineError
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.indices import depends_on_inputs, index_bounds, invalid_indices
from castsmith.verification.evaluate.limits import refuse_huge

_HEAD = """<ir_version: 10, opset_import: ["" : %d, "qonnx.custom_op.general" : 1, "com.microsoft" : 1, "f" : 1]> """


def run(text: str, opset: int = 21, rules: PromotionRules | None = None, **feeds: Any) -> list[Any]:
    model = onnx_ir.from_proto(onnx.parser.parse_model(_HEAD % opset + text))
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


@pytest.mark.parametrize(
    ("text", "opset", "feeds", "dtype", "expected"),
    [
        ("g (float16[1] a, float[1] b) => (float[1] y) { y = Add (a, b) }", 21,
         (np.array([1], np.float16), np.array([0.1], np.float32)), np.float32, [1.100000023841858]),
        ("g (int8[1] a, int64[1] b) => (int64[1] y) { y = Mul (a, b) }", 21,
         (np.array([-100], np.int8), np.array([100])), np.int64, [-10000]),
        ("g (float16[1] a, float[1] b) => (float[1] y) { y = Pow (a, b) }", 21,
         (np.array([2], np.float16), np.array([0.5], np.float32)), np.float32, [1.4142135381698608]),
        ("g (float16[1] a, float[1] b) => (float16[1] y) { y = Pow (a, b) }", 21,
         (np.array([2], np.float16), np.array([0.5], np.float32)), np.float16, [1.4140625]),
        # Sum has no integers, and Max no bool: computed as they are meant
        ("g (int32[1] a, int32[1] b) => (int32[1] y) { y = Sum (a, b, b) }", 21,
         (np.array([2**30], np.int32), np.array([5], np.int32)), np.int32, [2**30 + 10]),
        ("g (bool[2] a, bool[2] b) => (bool[2] y) { y = Max (a, b) }", 21,
         (np.array([True, False]), np.array([False, False])), np.bool_, [True, False]),
        ("g (bool[2] a, bool[2] b) => (bool[2] y) { y = Min (a, b) }", 21,
         (np.array([True, True]), np.array([False, True])), np.bool_, [False, True]),
    ],
)  # fmt: skip
def test_operands_are_promoted(text: str, opset: int, feeds: tuple[Any, ...], dtype: Any, expected: list[Any]) -> None:
    (found,) = run(text, opset, **dict(zip("ab", feeds, strict=False)))
    assert (found.array.dtype, found.array.tolist()) == (dtype, expected)


def test_a_refused_promotion() -> None:
    with pytest.raises(PromotionError, match="int64 with float could lose precision"):
        run("g (int64[1] a, float[1] b) => (float[1] y) { y = Add (a, b) }", a=np.array([1]), b=np.ones(1, np.float32))


_SEQUENCES = [
    ("s = SequenceConstruct (x) y = Identity (s)", "seq(float[2]) y", None),
    ("s = SequenceConstruct (x) y = Neg (s)", "float[2] y", r"^g: .*Neg gets a sequence, which is not supported\.$"),
    ("y = SequenceAt (x, i)", "float[2] y", r"^g: .*SequenceAt .*needs a sequence\.$"),
    ("s = SequenceEmpty () y = ConcatFromSequence <axis = 0> (s)", "float[2] y",
     r"^g: .*ConcatFromSequence gets an empty sequence\.$"),
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


@pytest.mark.parametrize(
    ("node", "shapes", "expected"),
    [
        (node_of("Gather"), [(3, 4), (2,)], [(1, -3, 2)]),
        (node_of("Gather", axis=1), [(3, 4), (2,)], [(1, -4, 3)]),
        (node_of("Gather", axis=-2), [(3, 4), (2,)], [(1, -3, 2)]),
        (node_of("Gather", axis=2), [(3, 4), (2,)], []),
        (node_of("Gather", axis=-3), [(3, 4), (2,)], []),
        (node_of("Gather"), [None, (2,)], []),
        (node_of("Gather", domain="f"), [(3, 4), (2,)], []),
        (node_of("GatherND"), [(3, 4, 5), (2, 2)], [(1, -3, 2)]),
        (node_of("GatherND", batch_dims=1), [(3, 4, 2), (3, 2)], [(1, -2, 1)]),
        (node_of("GatherND"), [(3, 4), ()], []),
        (node_of("Add"), [(3,), (3,)], []),
        (node_of("EmbedLayerNormalization", "com.microsoft", 5), [(1, 2), (1, 2), (9, 4), (7, 4), (3, 4)],
         [(0, 0, 8), (1, 0, 2)]),
        (node_of("EmbedLayerNormalization", "com.microsoft", 3), [(1, 2), (1, 2), (9, 4)], [(0, 0, 8)]),
    ],
)  # fmt: skip
def test_bounds_of_indices(node: onnx_ir.Node, shapes: list[Any], expected: list[Any]) -> None:
    assert list(index_bounds(node, shapes)) == expected


@pytest.mark.parametrize(
    ("node", "shape", "indices", "text"),
    [
        (node_of("Gather"), (3,), [-3, 2], None),
        (node_of("Gather"), (3,), [-4, 2], "Gather gets indices from -4 to 2, expected -3 to 2."),
        (node_of("Gather"), (3,), [0, 3], "Gather gets indices from 0 to 3, expected -3 to 2."),
        (node_of("Gather"), (3,), [], None),
        (node_of("GatherND"), (3, 5), [[2, 4], [-3, -5]], None),
        (node_of("GatherND"), (3, 5), [[3, 0]], "GatherND gets indices from 0 to 3, which exceed axes of [3, 5]."),
        (node_of("GatherND"), (3, 5), [[0, -6]], "GatherND gets indices from -6 to 0, which exceed axes of [3, 5]."),
    ],
)
def test_invalid_indices(node: onnx_ir.Node, shape: tuple[int, ...], indices: Any, text: str | None) -> None:
    found = invalid_indices(node, [np.zeros(shape), np.array(indices, np.int64)])
    assert (None if found is None else found[1]) == text
    assert invalid_indices(node, [np.zeros(shape), None]) is None
    assert invalid_indices(node, [np.zeros(shape), np.array(indices, np.float32)]) is None


def test_what_depends_on_inputs() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Neg (w) s = Shape (x) z = Size (x)
        b = Add (a, x) d = Cast <to = 1> (s) e = Add (d, a)
        i = If (c) <then_branch = t () => (float[2] p) { p = Neg (w) },
        else_branch = e () => (float[2] q) { q = Abs (w) }>
        y = Neg (i) }"""
    graph = onnx_ir.from_proto(onnx.parser.parse_model(_HEAD % 21 + text)).graph
    made = {value.name: value for node in graph for value in node.outputs}
    expected = {"a": False, "s": False, "z": False, "b": True, "d": False, "e": False, "i": True, "y": True}
    assert {name: depends_on_inputs(value) for name, value in made.items()} == expected
    assert depends_on_inputs(graph.inputs[0])
    assert not depends_on_inputs(None)
    assert not depends_on_inputs(graph.initializers["w"])


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
        ("Range", [np.array(0), np.array(0), np.array(0)], True),
        ("Pad", [np.zeros((2, 2)), np.array([0, 0, _HUGE, _HUGE])], True),
        ("Pad", [np.zeros((2, 2)), np.array([0, 0, 1, 1])], False),
        ("Resize", [np.zeros((2, 2)), None, np.array([1e5, 1e5])], True),
        ("Resize", [np.zeros((2, 2)), None, np.array([2.0, 2.0])], False),
        ("Resize", [np.zeros((2, 2)), None, None, np.array([_HUGE, _HUGE])], True),
        ("MatMul", [np.zeros((_HUGE, 1)), np.zeros((1, _HUGE))], True),
        ("MatMul", [np.zeros((2, 1)), np.zeros((1, 2))], False),
        ("Add", [np.zeros((_HUGE, 1)), np.zeros((1, _HUGE))], True),
        ("Add", [np.zeros((2, 1)), np.zeros((1, 2))], False),
        ("Where", [np.zeros((_HUGE, 1)), np.zeros(()), np.zeros((1, _HUGE))], True),
        ("RoiAlign", [np.zeros((1, 1, 2, 2)), np.array([[0, 0, 1e6, 1e6]])], True),
        ("RoiAlign", [np.zeros((1, 1, 2, 2)), np.array([[0, 0, 2.0, 2.0]])], False),
        ("STFT", [np.zeros((1, 8, 1)), np.array(0), None, np.array(4)], True),
        ("STFT", [np.zeros((1, 8, 1)), np.array(2), None, np.array(4)], False),
        ("Neg", [np.zeros(3)], False),
    ],
)  # fmt: skip
def test_results_that_are_too_large(op_type: str, operands: list[Any], refused: bool) -> None:
    node = node_of(op_type, count=len(operands))
    if not refused:
        refuse_huge(node, operands)
        return
    with pytest.raises(EngineError, match=rf"^{op_type} would make .* elements, which exceeds the limit\.$"):
        refuse_huge(node, operands)


def test_bits() -> None:
    assert bits_of(np.array([1.0, -0.0], np.float32)).tolist() == [0x3F800000, 0x80000000]
    assert bits_of(np.array([1 + 2j], np.complex64)).tolist() == [[0x3F800000, 0x40000000]]
    assert bits_of(np.array([[True]])).tolist() == [[1]]
    assert bits_of(np.array([[b"a", "b"], [1, b"\xff"]], object)).tolist() == [["a", "b"], ["1", "\ufffd"]]
