"""LowerQuant in ONNX Runtime against qonnx's own functions, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
import pytest

from castsmith.ir.records import RewriteResult
from castsmith.ir.targets import load_target
from castsmith.lowering.quant import LowerQuant
from tests.lowering.runtime import LEVELS, Array, run, session
from tests.lowering.test_float8 import model_of

qonnx = pytest.importorskip("qonnx.custom_op.general.intquant")
floatquant = pytest.importorskip("qonnx.custom_op.general.floatquant")
bipolar = pytest.importorskip("qonnx.custom_op.general.bipolar_quant")

CPU = load_target("onnxruntime-cpu")
MODES = ("ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "half_down")
X = np.concatenate([
    np.random.default_rng(0).normal(0, 20, 5000), np.arange(-40, 40, 0.25), [0.0, -0.0, np.nan, np.inf, -np.inf, 1e30],
]).astype(np.float32)  # fmt: skip


def lowered(body: str, **weights: Array) -> tuple[onnx_ir.Model, RewriteResult]:
    model = model_of(body, 19, "", **weights)
    model.graph.opset_imports["qonnx.custom_op.general"] = 1
    result = LowerQuant(CPU)(model)
    assert isinstance(result, RewriteResult)
    return model, result


def check(model: onnx_ir.Model, expected: Array, x: Array) -> None:
    for level in LEVELS:
        (y,) = run(session(onnx_ir.to_proto(model), level), {"x": x})
        numbers = ~np.isnan(expected)
        assert y[numbers].tobytes() == expected[numbers].astype(np.float32).tobytes()
        assert np.isnan(y[~numbers]).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("bits", "signed", "narrow", "zero"), [
    (4, 1, 0, 0), (4, 1, 1, 0), (8, 0, 0, 3), (3, 0, 1, 0), (1, 1, 1, 0), (2.5, 1, 0, 0.5),
])  # fmt: skip
def test_integers(mode: str, bits: float, signed: int, narrow: int, zero: float):
    body = f"""agraph (float[N] x) => (float[N] y) {{ y = qonnx.custom_op.general.Quant
        <signed = {signed}, narrow = {narrow}, rounding_mode = "{mode}"> (x, scale, zeropt, bitwidth) }}"""
    scale, zeropt, bitwidth = (np.array(value, np.float32) for value in (0.37, zero, bits))
    model, result = lowered(body, scale=scale, zeropt=zeropt, bitwidth=bitwidth)
    assert not result.records.refusals
    with np.errstate(all="ignore"):
        expected = qonnx.int_quant(X, scale, zeropt, bitwidth, bool(signed), bool(narrow), mode)
    check(model, expected, X)


def test_two_values():
    model, _ = lowered("agraph (float[N] x) => (float[N] y) { y = qonnx.custom_op.general.BipolarQuant (x, scale) }",
                       scale=np.array(0.3, np.float32))  # fmt: skip
    check(model, bipolar.binary_quant(X, np.array(0.3, np.float32)), X)


FORMATS: list[tuple[int, int, int, float]] = [
    (4, 3, 7, 448),
    (5, 2, 15, 57344),
    (2, 1, 1, 6),
    (3, 2, 3, 28),
    (2, 3, 1, 99),
    (8, 7, 127, 3e38),
    (8, 5, 90, 3e38),
    (6, 0, 31, 1e9),
]
TINY_IS_ADDED = "sees the 2**-126"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("saturation", "has_inf", "has_nan"), [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_floats(mode: str, form: tuple[int, int, int, float], saturation: int, has_inf: int, has_nan: int):
    body = f"""agraph (float[N] x) => (float[N] y) {{ y = qonnx.custom_op.general.FloatQuant
        <has_inf = {has_inf}, has_nan = {has_nan}, has_subnormal = 1, saturation = {saturation},
         rounding_mode = "{mode}"> (x, scale, e, m, b, top) }}"""
    values: dict[str, Any] = {name: np.array(value, np.float32) for name, value in zip("embt", form, strict=True)}
    scale, values["top"] = np.array(0.37, np.float32), values.pop("t")
    model, result = lowered(body, scale=scale, **values)
    if mode in ("FLOOR", "CEIL", "UP", "DOWN") and (form[1] == 0 or form[2] > 101):
        assert (TINY_IS_ADDED if form[1] else "may give 0") in result.records.refusals[0].reason
        return
    assert not result.records.refusals
    powers = (2.0 ** np.arange(-140, 120)).astype(np.float32)
    around = (powers.view(np.uint32)[:, None] + np.arange(-50, 51, dtype=np.int64)).astype(np.uint32).view(np.float32)
    x = np.concatenate([X, around.ravel(), -around.ravel(), -powers * np.float32(1.5)]) * scale
    with np.errstate(all="ignore"):
        expected = floatquant.float_quant(
            x.copy(), scale, values["e"], values["m"], values["b"], True, values["top"],
            has_inf, has_nan, 1, mode, saturation,
        )  # fmt: skip
    check(model, expected, x)


@pytest.mark.parametrize(("body", "says"), [
    ("y = qonnx.custom_op.general.Quant <signed = 1, narrow = 0> (x, one, one, x)", "bitwidth must be one constant"),
    ("y = qonnx.custom_op.general.Quant <signed = 1> (x, one, one, one)", "no narrow"),
    ("y = qonnx.custom_op.general.FloatQuant <saturation = 0> (x, one, one, one, one, one)", "no has_inf"),
])  # fmt: skip
def test_refusals(body: str, says: str):
    _, result = lowered(f"agraph (float[N] x) => (float[N] y) {{ {body} }}", one=np.array(1, np.float32))
    assert not result.modified
    assert says in result.records.refusals[0].reason
