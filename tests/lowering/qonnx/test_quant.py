"""LowerQuant in ONNX Runtime against qonnx's own functions, bit for bit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

import castsmith
from castsmith.ir.records import RewriteResult
from castsmith.lowering.qonnx.quant import LowerQuant
from castsmith.lowering.qonnx.trunc import LowerTrunc
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from castsmith.targets.target import load_target
from tests.lowering.float8.test_lower import model_of
from tests.lowering.runtime import LEVELS, Array, run, session
from tests.sampling import sampled

qonnx = pytest.importorskip("qonnx.custom_op.general.intquant")
floatquant = pytest.importorskip("qonnx.custom_op.general.floatquant")
bipolar = pytest.importorskip("qonnx.custom_op.general.bipolar_quant")
trunc = pytest.importorskip("qonnx.custom_op.general.trunc")
onnx_exec = pytest.importorskip("qonnx.core.onnx_exec")
ModelWrapper = pytest.importorskip("qonnx.core.modelwrapper").ModelWrapper

CPU = load_target("onnxruntime-cpu")
MODES = ("ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "half_down")
X = np.concatenate([
    np.random.default_rng(0).normal(0, 20, 5000), np.arange(-40, 40, 0.25), [0.0, -0.0, np.nan, np.inf, -np.inf, 1e30],
]).astype(np.float32)  # fmt: skip


def lowered(body: str, **weights: Array) -> tuple[onnx_ir.Model, RewriteResult]:
    model = model_of(body, 19, "", **weights)
    model.graph.opset_imports["qonnx.custom_op.general"] = 1
    result = LowerQuant(CPU)(model)
    return model, result if result.modified or result.records.refusals else LowerTrunc(CPU)(model)


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


ZEROS = (0.0, -0.0, [0.0, -0.0], [-0.0, 1.0], [-0.0, -0.0])


@pytest.mark.parametrize("name", ["Quant", "Trunc of version 1", "Trunc of version 2"])
def test_zero_points_of_both_signs_in_every_type(name: str):
    """Adding +0 and subtracting -0 turn -0 into +0; a zero point of a wider type widens the arithmetic."""
    x = np.stack([X, X], axis=1)
    for zero, dtype, mode in itertools.product(ZEROS, (np.float32, np.float64, np.int32), ("ROUND", "CEIL", "UP")):
        weights = {"s": np.array(0.37, np.float32), "z": np.array(zero, dtype), "b": np.array(28, np.float32)}
        weights |= {"w": np.array(30, np.float32), "t": np.array(1.48, np.float32)}
        s, z, b, w, t = (weights[key] for key in "szbwt")
        with np.errstate(all="ignore"):
            if name == "Quant":
                node, expected = "Quant (x, s, z, b)", qonnx.int_quant(x, s, z, b, True, False, mode)
            elif name == "Trunc of version 1":
                node, expected = "Trunc (x, s, z, w, b)", trunc.trunc_v1(x, s, z, w, b, mode)
            else:
                node, expected = "TruncQuant (x, s, z, w, t, b)", trunc.trunc_v2(x, s, z, w, False, True, t, b, mode)
        node = node.replace(" ", f' <rounding_mode = "{mode}"> ', 1)
        body = f"agraph (float[N,2] x) => (float[N,2] y) {{ y = qonnx.custom_op.general.{node} }}"
        model, result = lowered(body, **weights)
        assert not result.records.refusals
        check(model, expected, x)


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
    (4, 3, 127, 3e38),
    (5, 10, 120, 1e-30),
    (8, 3, -120, 3e38),
]
TINY_IS_ADDED = "the 2**-126 that QONNX adds"


@pytest.mark.parametrize(
    ("mode", "form", "specials"),
    sampled(
        "formats of FloatQuant",
        itertools.product(MODES, FORMATS, [(1, 0, 0), (0, 1, 0), (0, 0, 1)]),
        40,
        cover=enumerate,
    ),
)
def test_floats(mode: str, form: tuple[int, int, int, float], specials: tuple[int, int, int]):
    saturation, has_inf, has_nan = specials
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
    ("y = qonnx.custom_op.general.FloatQuant <saturation = 0> (x, one, one, one, one, one)", "neither infinity nor"),
    ("y = qonnx.custom_op.general.FloatQuant <saturation = 1> (x, one, four, one, below, one)",
     "an exponent of 4.0 bits with bias -127.0 exceeds the range of float"),
    ('y = qonnx.custom_op.general.Trunc (x, one, one, one)', "4 inputs, which fits no version"),
    ('y = qonnx.custom_op.general.Trunc (x, one, one, one, x)', "out_bitwidth must be constant"),
    ('y = qonnx.custom_op.general.Trunc <rounding_mode = "NEAR"> (x, one, one, one, one)', "NEAR"),
    ("y = qonnx.custom_op.general.Trunc (x, one, one, one, half)", "out_bitwidth of QONNX"),
])  # fmt: skip
def test_refusals(body: str, says: str):
    constants = {"one": np.array(1, np.float32), "half": np.array(0.5, np.float32)}
    constants |= {"four": np.array(4, np.float32), "below": np.array(-127, np.float32)}
    _, result = lowered(f"agraph (float[N] x) => (float[N] y) {{ {body} }}", **constants)
    assert not result.modified
    assert says in result.records.refusals[0].reason


@pytest.mark.parametrize("node", ["Quant (x, one, one, one)", "Trunc (x, one, one, one, one)"])
def test_rounding_needs_opset_11(node: str) -> None:
    body = f"agraph (float[N] x) => (float[N] y) {{ y = qonnx.custom_op.general.{node} }}"
    for opset in (10, 11):
        model = model_of(body, opset, "", one=np.array(1, np.float32))
        model.graph.opset_imports["qonnx.custom_op.general"] = 1
        refusals = [each for run in (LowerQuant(CPU), LowerTrunc(CPU)) for each in run(model).records.refusals]
        said = [each.reason for each in refusals]
        assert said == ([] if opset == 11 else ["rounding needs Round: raise the opset from 10 to 11"])


@pytest.mark.parametrize(
    "name", ["Quant (x, s, z, b)", "BipolarQuant (x, s)", "FloatQuant (x, s, b, b, z, m)", "Trunc (x, s, z, b, b)"]
)
def test_operands_of_every_type(name: str):
    """Those that have no meaning in the steps are refused; QONNX declares float."""
    for dtype in map(type_name, ELEMENT_TYPES):
        constants = "<float b = {4}, float z = {0}, float m = {7}>"
        body = f"{{ y = qonnx.custom_op.general.{name} }}"
        _, result = lowered(f"agraph ({dtype}[2] x, {dtype}[1] s) => (y) {constants} {body}")
        assert result.modified != bool(result.records.refusals), dtype
        if dtype in ("float", "double", "float16"):
            assert result.modified or "FloatQuant" in name
        if dtype in ("string", "bool", "int4", "float8e4m3fn", "complex64"):
            assert f"input 0 is {dtype}" in result.records.refusals[0].reason


DOMAINS = ("qonnx.custom_op.general", "qonnx.custom_ops.general", "onnx.brevitas", "finn.custom_op.general")
NODES = {
    "Quant": "{d}.Quant (x, s, z, b)",
    "IntQuant": '{d}.IntQuant <signed = 0, narrow = 1, rounding_mode = "floor"> (x, s, z, b)',
    "BipolarQuant": "{d}.BipolarQuant (x, s)",
    "FloatQuant": "{d}.FloatQuant (x, s, e, m, p, top)",
    "Trunc of version 1": "{d}.Trunc (x, s, z, w, b)",
    "Trunc of version 2": '{d}.Trunc <rounding_mode = "half_up", signed = 0> (x, s, z, w, t, b)',
    "TruncQuant": "{d}.TruncQuant (x, s, z, w, t, b)",
}
WEIGHTS = {"s": 0.5, "z": 0, "b": 4, "w": 8, "t": 2, "e": 4, "m": 3, "p": 7, "top": 448}
FLAGS = "has_inf = 0, has_nan = 0, has_subnormal = 1, saturation = 1"
SCOPES = {
    "plain": "agraph ({inputs}) => (float[N] y) <{weights}> {{ y = {node} }}",
    "If": """agraph ({inputs}, bool c) => (float[N] y) <{weights}> {{ y = If (c) <
        then_branch = p () => (float[N] a) {{ a = {node} }},
        else_branch = n () => (float[N] o) {{ o = {node} }}> }}""",
    "function": """agraph ({inputs}) => (float[N] y) <{weights}> {{ y = f.F ({names}) }}
        <domain: "f", opset_import: ["": 19, "{d}": {v}]> F ({names}) => (y) {{ y = {node} }}""",
}


def executed(name: str, x: Array) -> Array:
    """Return the results of qonnx for each of NODES."""
    w = {key: np.array(value, np.float32) for key, value in WEIGHTS.items()}
    with np.errstate(all="ignore"):
        if name.startswith("Trunc of version 1"):
            return trunc.trunc_v1(x, w["s"], w["z"], w["w"], w["b"], "FLOOR")
        if name.startswith("Trunc"):
            mode, signed = ("half_up", False) if name == "Trunc of version 2" else ("FLOOR", True)
            return trunc.trunc_v2(x, w["s"], w["z"], w["w"], False, signed, w["t"], w["b"], mode)
        if name == "BipolarQuant":
            return bipolar.binary_quant(x, w["s"])
        if name == "FloatQuant":
            return floatquant.float_quant(x.copy(), w["s"], w["e"], w["m"], w["p"], True, w["top"])
        signed, narrow, mode = (True, False, "ROUND") if name == "Quant" else (False, True, "floor")
        return qonnx.int_quant(x, w["s"], w["z"], w["b"], signed, narrow, mode)


@pytest.mark.parametrize("ir_version", [3, 8])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("name", NODES)
def test_every_operator_in_every_scope_domain_and_ir_version(name: str, scope: str, ir_version: int):
    """Initializers are graph inputs too, as IR version 3 wants it; in the second domain they are not, from 4 on."""
    domain = DOMAINS[(len(name) + ir_version) % 4]
    if scope == "function" and ir_version < 8:
        pytest.skip("no functions before IR version 8")
    names = list(WEIGHTS)
    inputs = ", ".join(["float[N] x", *(f"float {key}" for key in names)])
    weights = ", ".join(f"float {key} = {{{value}}}" for key, value in WEIGHTS.items())
    parts = {"d": domain, "v": 1 if name == "Trunc of version 1" else 2, "names": ", ".join(["x", *names])}
    node = NODES[name].format(**parts)
    body = SCOPES[scope].format(node=node, inputs=inputs, weights=weights, **parts)
    extra = ', "f": 1' if scope == "function" else ""
    model = onnx_ir.from_onnx_text(
        f'<ir_version: {ir_version}, opset_import: ["": 19, "{domain}": {parts["v"]}{extra}]> {body}'
    )
    optimized = castsmith.optimize(model, target="onnxruntime-cpu")
    assert not optimized.refusals
    proto = onnx_ir.to_proto(optimized.model)
    onnx.checker.check_model(proto, full_check=True)
    left = {value.name: value for value in proto.graph.input}
    changed = {rewrite.site.node for rewrite in optimized.rewrites if rewrite.effect is castsmith.Effect.INTERFACE}
    used = {value.name for value in model.graph.inputs if value.uses()}
    assert used - changed <= {*left, "c"}
    feeds = {"x": X, **({"c": np.array(True)} if scope == "If" else {})}
    expected = executed(name, X)
    (y,) = run(session(proto), feeds)
    numbers = ~np.isnan(expected)
    assert y[numbers].tobytes() == expected[numbers].astype(np.float32).tobytes()
    assert np.isnan(y[~numbers]).all()


def test_what_qonnx_runs_stays_for_it():
    """The rest is lowered, with the same bits in the executor of qonnx, which leaves subgraphs to ONNX Runtime."""
    weights = ", ".join(f"float {key} = {{{value}}}" for key, value in WEIGHTS.items())
    required = {"Quant": "signed = 1, narrow = 0", "FloatQuant": FLAGS, "Trunc of version 1": 'rounding_mode = "FLOOR"'}
    known = (DOMAINS[0], *DOMAINS[2:])
    stays = {
        *itertools.product(("Quant", "IntQuant", "BipolarQuant", "FloatQuant"), known, (0, 1, 2)),
        *itertools.product(("Trunc of version 1",), known, (0, 1)),
        *itertools.product(("Trunc of version 2",), known[:2], (2,)),
    }
    every = itertools.product(NODES, DOMAINS, (0, 1, 2))
    for name, domain, version in sampled("nodes for qonnx", every, 14, cover=enumerate):
        if name.startswith("Trunc of version") and version not in (0, int(name[-1])):
            continue
        node = NODES[name].format(d=domain)
        if name in required:
            node = node.replace(" (", f" <{required[name]}> (")
        imported = f', "{domain}": {version}' if version else ""
        for scope in ("plain", "If"):
            body = SCOPES[scope].format(node=node, inputs=f"float[{X.size}] x", weights=weights)
            model = onnx_ir.from_onnx_text(f'<ir_version: 8, opset_import: ["": 19{imported}]> {body}')
            result = castsmith.optimize(model, target="qonnx")
            kept = scope == "plain" and (name, domain, version) in stays
            assert any(each.domain for each in result.model.graph.all_nodes()) == kept
            found = [[each.code for each in castsmith.check(m, target="qonnx")] for m in (model, result.model)]
            assert ["target-lacks-operator" in codes for codes in found] == [not kept, False]
            if scope == "plain":
                with np.errstate(all="ignore"):
                    y = onnx_exec.execute_onnx(ModelWrapper(onnx_ir.to_proto(result.model)), {"x": X})["y"]
                expected = executed(name, X).astype(np.float32)
                numbers = ~np.isnan(expected)
                assert np.isnan(y[~numbers]).all()
                assert y[numbers].tobytes() == expected[numbers].tobytes(), (name, domain, version)


def test_version_2_of_trunc_does_not_use_its_input_width():
    body = """agraph (float[N] x, float w) => (float[N] y) {
        y = qonnx.custom_op.general.Trunc (x, s, z, w, t, b) }"""
    weights = {key: np.array(WEIGHTS[key], np.float32) for key in "sztb"}
    model, result = lowered(body.replace("Trunc", "TruncQuant"), **weights)
    assert not result.records.refusals
    (y,) = run(session(onnx_ir.to_proto(model)), {"x": X, "w": np.array(3, np.float32)})
    numbers = ~np.isnan(X)
    assert y[numbers].tobytes() == executed("TruncQuant", X)[numbers].tobytes()


def test_what_the_model_defines_itself_is_left_to_it():
    text = """<ir_version: 10, opset_import: ["": 21, "qonnx.custom_op.general": 2]>
        g (float[4] x) => (float[4] y) <float s = {1}> { y = qonnx.custom_op.general.BipolarQuant (x, s) }
        <domain: "qonnx.custom_op.general", opset_import: ["": 21]> BipolarQuant (x, s) => (y) { y = Mul (x, s) }"""
    result = LowerQuant(CPU)(onnx_ir.from_onnx_text(text))
    assert not result.modified


def test_an_unused_import_is_no_change():
    imports = '<ir_version: 8, opset_import: ["": 14, "onnx.brevitas": 1]>'
    model = onnx_ir.from_onnx_text(f"{imports} g (float x) => (float y) {{ y = Neg (x) }}")
    assert not LowerQuant(CPU)(model).modified
    assert "onnx.brevitas" in model.graph.opset_imports
