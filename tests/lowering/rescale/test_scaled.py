"""Each rule of exponents says what its operator does: scaled by powers that the rules allow, a model gives the same."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import onnxruntime
import sympy

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.constants import constant_tensor
from castsmith.lowering.rescale.exponents import RULES, Exponents, Form, degree_of
from castsmith.numerics.promotion.rules import PromotionRules
from tests.sampling import check_all

Array = np.ndarray[Any, Any]


def drawn(*shape: int) -> Array:
    return np.random.default_rng([7, *shape]).uniform(0.5, 2, shape).astype(np.float32)


CONSTANTS: dict[str, Array] = {
    "s": drawn(),
    "t": drawn(),
    "v": drawn(4),
    "u": drawn(4),
    "p": drawn(4),
    "q": drawn(4),
    "w": drawn(4, 4),
    "c": drawn(4, 4, 2, 2),
    "axes": np.array([-1]),
    "half": np.array(0.5, np.float32),
    "third": np.array(0.3333, np.float32),
    "two": np.array(2, np.float32),
    "k": np.array([2]),
    "low": np.array(0.25, np.float32),
    "high": np.array(8, np.float32),
    "codes": np.arange(16, dtype=np.uint8),
    "zero": np.array(3, np.uint8),
    "pads": np.array([0, 0, 0, 1, 0, 0, 0, 2]),
    "last": np.array(3),
    "packed": np.arange(32, dtype=np.uint8).reshape(4, 1, 8),
    "scales": drawn(4),
    "places": np.array([[0, 1, 2, 3]]),
    "cosines": drawn(4, 2),
    "sines": drawn(4, 2),
    "first": np.array([0]),
    "square": np.array([4, 4]),
    "other": np.array([0, 2, 3]),
}
ROWS = {
    **{
        f"{op} of {n}": f"b = {op} (a, {n})"
        for op in ("Add", "Sub", "Sum", "Mean", "Max", "Min")
        for n in ("a", "s", "d")
    },
    **{op: f"b = {op} (a)" for op in ("Relu", "LeakyRelu", "Abs", "Neg", "Sqrt", "Reciprocal", "Exp", "Log", "Sign")},
    **{f"{op} of {n}": f"b = {op} (a, {n})" for op in ("Mul", "MatMul", "Div") for n in ("a", "w", "d")},
    **{f"{op} of a constant": f"b = {op} (w, a)" for op in ("Mul", "MatMul", "Div")},
    **{op: f"b = {op} <kernel_shape = [2, 2]> (a)" for op in ("MaxPool", "AveragePool", "LpPool")},
    **{op: f"b = {op} (a)" for op in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")},
    **{
        op: f"b = {op} (a, axes)"
        for op in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare")
    },
    "ReduceLogSum": "b = ReduceLogSum (a, axes)",
    "PRelu": "n = Neg (a) b = PRelu (n, s)",
    "CumSum": "b = CumSum (a, last)",
    "TopK": "b, i = TopK (a, k)",
    **{f"Pow by {n}": f"b = Pow (a, {n})" for n in ("half", "two", "third")},
    "Conv": "b = Conv (a, c, v)",
    "Conv of a bias": "f = ReduceMean <keepdims = 0> (d, other) b = Conv (a, c, f)",
    "ConvTranspose": "b = ConvTranspose (a, c, v)",
    **{
        f"Gemm {name}": f"e = Flatten <axis = 3> (a) b = Gemm <{settings}> (e, w{bias})"
        for name, settings, bias in (
            *(
                ("plain", "alpha = 1.0", ""),
                ("scaled", "alpha = 0.3, beta = 2.0", ", v"),
                ("and its bias", "beta = 0.5", ", v"),
            ),
            ("of a bias", "alpha = 0.3, beta = 0.5", ", e"),
        )
    },
    "Einsum of one": 'b = Einsum <equation = "ijkl->ijlk"> (a)',
    "Einsum of two": 'b = Einsum <equation = "ijkl,ijlm->ijkm"> (a, d)',
    "Einsum of three": 'b = Einsum <equation = "ijkl,ijlm,ijmn->ijkn"> (a, d, a)',
    "MatMulNBits": "b = com.microsoft.MatMulNBits <K = 4, N = 4, bits = 4, block_size = 16> (a, packed, scales)",
    "FusedMatMul": "b = com.microsoft.FusedMatMul <alpha = 0.3> (a, d)",
    "LayerNormalization": "b = LayerNormalization <epsilon = 0.1> (a, v, u)",
    "LayerNormalization without a scale of its own": "f = Mul (v, x1) b = LayerNormalization <epsilon = 0.1> (a, f)",
    "LayerNormalization and its mean": "n, m = LayerNormalization <epsilon = 0.1> (a, v) b = Add (n, m)",
    "RMSNormalization": "b = RMSNormalization <epsilon = 0.1> (a, v)",
    "SimplifiedLayerNormalization": "b = SimplifiedLayerNormalization <epsilon = 0.1> (a, v)",
    "GroupNormalization": "b = GroupNormalization <num_groups = 2, epsilon = 0.1> (a, v, u)",
    "InstanceNormalization": "b = InstanceNormalization <epsilon = 0.1> (a, v, u)",
    "BatchNormalization": "b = BatchNormalization <epsilon = 0.1> (a, v, u, p, q)",
    **{
        op: f"g = Squeeze (a, first) h = Squeeze (d, first) b = com.microsoft.{op} <epsilon = 0.1> (g, h, v{more})"
        for op, more in (("SkipLayerNormalization", ", u, p"), ("SkipSimplifiedLayerNormalization", ", p"))
    },
    "LpNormalization": "b = LpNormalization (a)",
    "MeanVarianceNormalization": "b = MeanVarianceNormalization (a)",
    "DequantizeLinear": "l = DequantizeLinear (codes, s, zero) e = Reshape (l, square) b = Mul (e, a)",
    "QuantizeLinear": "l = QuantizeLinear (a, s, zero) b = Cast <to = 1> (l)",
    "Cast": "l = Cast <to = 10> (a) b = Cast <to = 1> (l)",
    "Cast to an integer": "l = Cast <to = 6> (a) b = Cast <to = 1> (l)",
    "Clip": "b = Clip (a, low, high)",
    "Where": "l = Less (a, d) b = Where (l, a, t)",
    "Pad": "b = Pad (a, pads, s)",
    "RotaryEmbedding": "b = com.microsoft.RotaryEmbedding (a, places, cosines, sines)",
    "Tanh": "b = Tanh (a)",
}
RIGID = {"Tanh", "Cast to an integer", "Einsum of three", "LayerNormalization and its mean"}
"""Rows in which neither the operand nor the result is scaled."""


def model_of(body: str) -> onnx_ir.Model:
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {23 if "RMS" in body else 21}, "com.microsoft": 1]>'
        " g (float[1,4,4,4] x, float[1,4,4,4] z, float[4] x1) => (float y)"
        f" {{ a = Mul (x, s) d = Mul (z, t) {body} y = Mul (b, t) }}"
    )
    read = {name for node in model.graph.node for name in node.input}
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in read]
    model.graph.initializer.extend(tensors)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx_ir.from_proto(model)


def output_of(model: onnx_ir.Model) -> Array:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(model).SerializeToString(), options)
    feeds = {"x": drawn(1, 4, 4, 4), "z": drawn(1, 4, 4, 4)[..., ::-1].copy(), "x1": drawn(4)}
    return np.asarray(session.run(None, {each.name: feeds[each.name] for each in session.get_inputs()})[0])


def allowed(exponents: Exponents) -> list[dict[int, Fraction]]:
    """Return a basis of the numbers that keep all equations."""
    unknowns = sorted({key for forms in _forms(exponents) for form in forms for key in form})
    rows = [[sympy.Rational(form.get(key, 0)) for key in unknowns] for form, _ in exponents.equations]
    basis = sympy.Matrix(rows or [[0] * len(unknowns)]).nullspace()
    return [{key: Fraction(int(n.p), int(n.q)) for key, n in zip(unknowns, each, strict=True)} for each in basis]


def _forms(exponents: Exponents) -> list[list[Form]]:
    tables = exponents.of, exponents.constants, exponents.attributes, exponents.repairs
    return [*(list(table.values()) for table in tables), [form for form, _ in exponents.equations]]


def scale(model: onnx_ir.Model, exponents: Exponents, numbers: dict[int, Fraction]) -> bool:
    """Scale the constants and attributes of the model, and repair it; True if something is repaired."""

    def at(form: Form) -> float:
        return float(sum(factor * numbers[key] for key, factor in form.items()))

    def constant(array: Array) -> onnx_ir.Value:
        value = onnx_ir.Value(name=f"new_{len(model.graph.initializers)}", const_value=onnx_ir.tensor(array))
        model.graph.register_initializer(value)
        return value

    for (node, index), form in exponents.constants.items():
        assert isinstance(node, onnx_ir.Node)
        tensor = constant_tensor(node.inputs[index])
        assert tensor is not None
        node.replace_input_with(index, constant(tensor.numpy() * np.float32(2.0 ** -at(form))))
    for (node, name), form in exponents.attributes.items():
        number = node.attributes.get_float(name, 1.0)
        node.attributes[name] = onnx_ir.AttrFloat32(name, number * 2.0 ** -at(form))
    for node, form in exponents.repairs.items():
        operand = node.inputs[0] if node.op_type == "Exp" else node.outputs[0]
        rest = degree_of(node) if node.op_type == "Pow" else None
        number = at(form) * math.log(2) if rest is None else 2.0 ** (at(form) * rest[1])
        value = constant(np.array(-number if node.op_type == "Exp" else number, np.float32))
        repair = onnx_ir.node("Add" if rest is None else "Mul", [operand, value])
        repair.outputs[0].name = "repaired"
        if node.op_type == "Exp":
            model.graph.insert_before(node, repair)
            node.replace_input_with(0, repair.outputs[0])
        else:
            model.graph.insert_after(node, repair)
            for user, index in list(node.outputs[0].uses()):
                if user is not repair:
                    user.replace_input_with(index, repair.outputs[0])
    return bool(exponents.repairs)


def require_the_same(name: str) -> None:
    model = model_of(ROWS[name])
    expected, moved = output_of(model), False
    exponents = Exponents(infer_element_types(model, PromotionRules()), frozenset())
    exponents.state(model)
    for place in range(len(allowed(exponents))):
        model = model_of(ROWS[name])
        exponents = Exponents(infer_element_types(model, PromotionRules()), frozenset())
        exponents.state(model)
        numbers = allowed(exponents)[place]
        amounts = [sum(f * numbers[key] for key, f in form.items()) for forms in _forms(exponents) for form in forms]
        whole = math.lcm(*(Fraction(amount).denominator for amount in amounts))
        numbers = {key: number * whole for key, number in numbers.items()}
        amount = {value.name: sum(f * numbers[key] for key, f in form.items()) for value, form in exponents.of.items()}
        moved = moved or any(amount.get(name) for name in "ab")
        repaired = scale(model, exponents, numbers)
        found = output_of(model)
        assert np.allclose(found, expected, rtol=1e-4) if repaired else np.array_equal(found, expected), numbers
    assert moved != (name in RIGID)


def test_each_rule() -> None:
    check_all(require_the_same, ROWS)


def test_each_rule_has_a_row() -> None:
    written = {node.op_type for body in ROWS.values() for node in model_of(body).graph}
    assert {name.rpartition(".")[2] for name in RULES} <= written


def test_what_is_not_scaled_at_all() -> None:
    """Each is scaled in another form: a normalization in training gives the mean of the operand as it is."""
    for body in (
        "b, m, n = BatchNormalization <training_mode = 1> (a, v, u, p, q)",
        "b = BatchNormalization (a, x1, u, p, q)",
        "b = Pow (a, x1)",
        "b = Pow (w, a)",
        "b = Pow (a, v)",
        "b = Exp (w)",
        "b = DequantizeLinear (codes, x1, zero)",
        "l = Cast <to = 6> (w) b = Cast <to = 1> (l)",
    ):
        model = model_of(body)
        exponents = Exponents(infer_element_types(model, PromotionRules()), frozenset())
        exponents.state(model)
        last = [node for node in model.graph if node.outputs[0].name != "y"][-1]
        assert not any(
            sum(factor * numbers[key] for key, factor in exponents.of.get(last.outputs[0], {}).items())
            for numbers in allowed(exponents)
        ), body
