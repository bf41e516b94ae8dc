"""Terms as functions of one element: what they give is what the model gives."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import castsmith
from castsmith.ir.io.loading import as_model
from castsmith.ir.ops.table import operators
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import parse_type
from castsmith.verification.evaluate.conversions import Tensor, bits_of
from castsmith.verification.evaluate.engines import Engine
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.prove.functions import Functions, run
from castsmith.verification.prove.proof import prove
from tests.sampling import check_all

_NUMBERS = np.array([0.0, -0.0, 1.0, 2.5, -3.25, 7.0, 100.0, 448.5, 0.1, 5e-8, 70000.0, 1e10, np.inf, -np.inf])
_K = "k = Constant <value_float = 2.5> ()"

BODIES = {
    "a chain of casts": ("float", "float", "a = Cast <to = 10> (x) b = Cast <to = 16> (a) y = Cast <to = 1> (b)"),
    "a table of bytes": ("float8e4m3fn", "float", "a = Cast <to = 1> (x) y = Neg (a)"),
    "a table of signed bytes": ("int8", "int8", "a = Abs (x) y = Neg (a)"),
    "a table of half": ("float16", "float16", "a = Abs (x) y = Sqrt (a)"),
    "a table of cells of float": ("float", "uint8", "a = Cast <to = 17> (x) y = BitCast <to = 2> (a)"),
    "arithmetic": ("float", "float", f"{_K} a = Mul (x, k) b = Add (a, a) y = Exp (b)"),
    "a choice": ("float", "float", f"{_K} c = Greater (x, k) n = Neg (x) y = Where (c, n, k)"),
    "a choice of what is undefined": (
        "float",
        "float",
        f"{_K} i = Cast <to = 3> (x) u = Cast <to = 1> (i) c = Greater (x, k) y = Where (c, u, k)",
    ),
    "a choice of what is undefined otherwise": (
        "float",
        "float",
        f"{_K} i = Cast <to = 3> (x) u = Cast <to = 1> (i) c = Less (x, k) y = Where (c, k, u)",
    ),
    "a choice by what is undefined": (
        "float",
        "float",
        f"{_K} i = Cast <to = 3> (x) c = Cast <to = 9> (i) n = Neg (x) y = Where (c, n, k)",
    ),
    "a cast of what is undefined": ("float", "float", "i = Cast <to = 6> (x) y = Cast <to = 1> (i)"),
    "arithmetic of what is undefined": ("float", "int32", "i = Cast <to = 6> (x) y = Neg (i)"),
    "bits of what is undefined": ("float", "float", "i = Cast <to = 6> (x) y = BitCast <to = 1> (i)"),
    "elements at undefined places": (
        "float",
        "float",
        "w = Constant <value_floats = [2.5, 3.5]> () o = Constant <value = int32 {1}> () n = Cast <to = 6> (x)"
        " i = BitwiseAnd (n, o) y = Gather (w, i)",
    ),
    "bounds": ("float", "float", f"{_K} y = Clip (x, , k)"),
    "a move": ("float", "float", f"{_K} s = Constant <value_ints = [-1]> () a = Div (x, k) y = Reshape (a, s)"),
    **{
        f"a cast that rounds {mode}": (
            "float",
            "float",
            f'{_K} a = Max (x, k) b = Cast <to = 24, round_mode = "{mode}"> (a) y = Cast <to = 1> (b)',
        )
        for mode in ("up", "down", "nearest")
    },
    **{
        f"a cast with saturate {saturate}": (
            "double",
            "float",
            f"k = Constant <value = double {{1e30}}> () a = Abs (x) b = Mul (a, k) m = Max (b, k)"
            f' c = Cast <to = 24, saturate = {saturate}, round_mode = "down"> (m) y = Cast <to = 1> (c)',
        )
        for saturate in (0, 1)
    },
    "a shift": ("uint32", "uint32", 'k = Constant <value = uint32 {3}> () y = BitShift <direction = "RIGHT"> (x, k)'),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_function_gives_what_the_model_gives(name: str) -> None:
    source, result, body = BODIES[name]
    text = f'<ir_version: 13, opset_import: ["" : 26]> g ({source}[N] x) => ({result}[N] y) {{ {body} }}'
    model = as_model(onnx.parser.parse_model(text))
    another = as_model(onnx.parser.parse_model(text.replace("N] y", "N] z").replace("y =", "z =")))  # so that rules run
    proof = prove(model, another)
    term = proof.ours.outputs["y"]
    functions = Functions(proof.terms)
    root, function = functions.of(term)
    assert root.op == "input"
    elements: Array = cast(np.where(np.isfinite(_NUMBERS), _NUMBERS, 3.0), parse_type(source))
    outputs = Evaluator(model, castsmith.PromotionRules(), Engine("reference")).run({"x": elements})
    expected = outputs["y"]
    assert isinstance(expected, Tensor)
    array, undefined = run(proof.terms, function, elements, {})
    assert ("undefined" in name) is (undefined is not None) is (expected.undefined is not None)
    mask = elements >= 2**31 if "places" in name else expected.undefined  # one place makes all undefined there
    assert undefined is None or (undefined == mask).all()
    same = bits_of(np.asarray(array).reshape(-1)) == bits_of(expected.array)
    assert (same | (expected.array != expected.array)).all()
    assert term in functions.path(term)
    assert root not in functions.path(term)


def test_infinities_to_fnuz_are_the_largest_number_since_opset_24() -> None:
    for opset, saturate, expected in ((23, 1, np.nan), (23, 0, np.nan), (24, 1, -240), (24, 0, np.nan)):
        text = f"""<ir_version: 10, opset_import: ["" : {opset}]> g (double[N] x) => (float8e4m3fnuz[N] y)
            {{ y = Cast <to = 18, saturate = {saturate}> (x) }}"""
        model = as_model(onnx.parser.parse_model(text))
        proof = prove(model, as_model(onnx.parser.parse_model(text.replace("N] y", "N] z").replace("y =", "z ="))))
        _, function = Functions(proof.terms).of(proof.ours.outputs["y"])
        array, _ = run(proof.terms, function, np.array([1, -np.inf]), {})
        assert np.array_equal(array.astype(float), [1, expected], equal_nan=True), (opset, saturate)


@pytest.mark.parametrize(("count", "is_whole"), [(1, True), (63, True), (64, False), (71, False)])
def test_a_function_has_at_most_so_many_steps(count: int, is_whole: bool) -> None:
    """64 with its source. A longer one begins anew: its source is a value on the way."""
    steps = " ".join(f"v{n + 1} = Neg (v{n})" for n in range(count))
    text = f'<ir_version: 10, opset_import: ["" : 21]> g (float[N] v0) => (float[N] v{count}) {{ {steps} }}'
    model = as_model(onnx.parser.parse_model(text))
    proof = prove(model, as_model(onnx.parser.parse_model(text.replace(f"v{count} = Neg", f"v{count} = Abs"))))
    functions, term = Functions(proof.terms), proof.ours.outputs[f"v{count}"]
    source, function = functions.of(term)
    assert (source.op == "input") is is_whole
    elements = np.array([1, -2], np.float32)
    expected = elements * (-1) ** (count if is_whole else count - 64)
    assert run(proof.terms, function, elements, {})[0].tolist() == expected.tolist()


def test_a_function_of_two_values_is_none() -> None:
    """Nor of elements of other places, nor of a table of two dimensions."""
    for body, is_function in (
        ("a = Add (x, x) y = Neg (a)", True),
        ("a = Add (x, z) y = Neg (a)", False),
        ("a = Add (x, k) y = Neg (a)", True),
        ("a = Add (x, w) y = Neg (a)", False),
        ("a = Transpose (x) y = Neg (a)", True),
        ("a = ReduceSum (x) y = Neg (a)", False),
        ("i = Cast <to = 7> (x) y = Gather (w, i)", True),
        ("i = Cast <to = 7> (x) y = Gather (t, i)", False),
        ("i = Cast <to = 7> (x) a = Cast <to = 7> (z) j = Add (i, a) y = Gather (w, j)", False),
        ("i = Cast <to = 7> (z) y = Gather (x, i)", False),
        ("y = LeakyRelu <alpha = 0.5> (x)", False),
        ("y = com.microsoft.Gelu (x)", False),
        ("a, y = Dropout (x)", False),
    ):
        text = f"""<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
            g (float[2] x, float[2] z) => (float[A] y)
            <float k = {{3}}, float[2] w = {{1, 2}}, float[2, 1] t = {{1, 2}}> {{ {body} }}"""
        model = as_model(onnx.parser.parse_model(text))
        proof = prove(
            model, as_model(onnx.parser.parse_model(text.replace("y =", "q =").replace("(float[A] y)", "(float[A] q)")))
        )
        source, _ = Functions(proof.terms).of(proof.ours.outputs["y"])
        assert (source.op == "input") is is_function, body


def unary() -> list[tuple[str, int]]:
    """Operators of floats with one operand and no attribute that must be written, each version since opset 13."""
    schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain]
    return [
        (schema.name, schema.since_version)
        for schema in schemas
        if schema.name in operators(lambda row: row.elementwise)
        and schema.since_version >= 13
        and schema.min_input <= 1
        and "tensor(float)" in schema.inputs[0].types
        and not any(attribute.required for attribute in schema.attributes.values())
    ]


def require_evaluated(name: str, opset: int) -> None:
    header, node = f'<ir_version: 13, opset_import: ["" : {opset}]> g (float[N] x) => (y)', f"y = {name} (d)"
    bodies = (f"c = Cast <to = {to}> (x) d = Cast <to = 1> (c) {node}" for to in (1, 10))
    models = (onnx.parser.parse_model(f"{header} {{ {body} }}") for body in bodies)
    assert castsmith.verify(*models, sets=1).different == (name != "IsNaN")  # float16 rounds no number to NaN


def test_each_operator_of_one_element_is_evaluated() -> None:
    check_all(require_evaluated, unary())
