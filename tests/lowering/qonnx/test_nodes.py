"""Which nodes, functions and inputs `lower-quant` and `lower-trunc` take, and what becomes of the rest."""

from __future__ import annotations

import onnx.parser
import onnx_ir

from castsmith.ir.records import Effect
from castsmith.ir.walks import all_nodes
from castsmith.lowering.qonnx.quant import LowerQuant
from castsmith.lowering.qonnx.trunc import LowerTrunc
from castsmith.targets.target import Target
from tests.sampling import check_all

PLAIN = Target("t", "", newest_opset=23, newest_ir_version=11)
CALLS_UNCONVERTED = Target("u", "", newest_opset=23, newest_ir_version=11, hazards={"functions-unconverted": "no"})
Q = "qonnx.custom_op.general"
IMPORTS = f'opset_import: ["": 21, "{Q}": 1, "f": 1, "com.acme": 1]'
WEIGHTS = "float s = {0.5}, float z = {0}, float b = {4}, float i = {8}"


def model_of(body: str, functions: str = "", ports: str = "float[2] x", ir_version: int = 10) -> onnx_ir.Model:
    text = f"<ir_version: {ir_version}, {IMPORTS}> g ({ports}) => (float[2] y) <{WEIGHTS}> {{ {body} }} {functions}"
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


def placeholder(domain: str, name: str) -> onnx_ir.Function:
    """A function without nodes."""
    return onnx_ir.Function(domain, name, graph=onnx_ir.Graph([], [], nodes=[], opset_imports={"": 21}), attributes=[])


OPERANDS: list[tuple[str, str, str]] = [
    ("float[2] x", f"y = {Q}.Quant (x, s, z, b)", ""),
    ("int8[2] x", f"y = {Q}.Quant (x, s, z, b)", ""),
    ("uint8[2] x", f"y = {Q}.Quant (x, s, z, b)", ""),
    ("float16[2] x", f"y = {Q}.Quant (x, s, z, b)", ""),
    ("int4[2] x", f"y = {Q}.Quant (x, s, z, b)", "input 0 is int4, expected floating-point numbers of at least 16"
     " bits or integers of at least 8"),
    ("float8e5m2[2] x", f"y = {Q}.Quant (x, s, z, b)", "input 0 is float8e5m2, expected floating-point numbers of at"
     " least 16 bits or integers of at least 8"),
    ("complex64[2] x", f"y = {Q}.Quant (x, s, z, b)", "input 0 is complex64, expected floating-point numbers of at"
     " least 16 bits or integers of at least 8"),
    ("float[2] x, bool t", f"y = {Q}.Quant (x, t, z, b)", "input 1 is bool, expected floating-point numbers of at"
     " least 16 bits or integers of at least 8"),
    ("float[2] x", f"a = com.acme.Any (x) y = {Q}.Quant (a, s, z, b)", ""),  # of an unknown type, which is float
    ("float[2] x", f"y = {Q}.Quant (x, s, , b)", "input 2 is missing"),
    ("float[2] x", "y = com.acme.Quant (x, s, z, b)", "stays"),
]  # fmt: skip


def require_operands(ports: str, body: str, reason: str) -> None:
    model = model_of(body, ports=ports)
    result = LowerQuant(PLAIN)(model)
    reasons = [refusal.reason for refusal in result.records.refusals]
    if reason.startswith("input 2"):
        assert len(reasons) == 1
        assert "2" in reasons[0] or "zeropt" in reasons[0]
    else:
        assert reasons == ([reason] if reason not in ("", "stays") else [])
    assert result.modified == (not reason)
    assert any("Quant" in node.op_type for node in model.graph) == bool(reason)


def test_the_operands_that_have_a_meaning() -> None:
    check_all(require_operands, OPERANDS)


K = "k = Constant <value = float {0.5}> () o = Constant <value = float {0}> () w = Constant <value = float {4}> ()"
FUNCTIONS: list[tuple[str, bool]] = [
    (f"{K} y = {Q}.Quant (x, k, o, w)", False),
    (f"{K} y = {Q}.Quant (x, s, o, w)", True),
    (f"{K} y = {Q}.BipolarQuant (x, s)", True),
    (f'{K} y = {Q}.Quant <signed: int = @flag, rounding_mode = "FLOOR"> (x, k, o, w)', True),
    (f"{K} y = {Q}.Quant <signed = 1> (x, k, o, w)", False),
    (f"{K} a = Add (x, s) y = {Q}.Quant (a, k, o, w)", False),
    (f"{K} a = com.acme.Quant (x, s) y = {Q}.Quant (a, k, o, w)", False),
    (f"{K} y = {Q}.Trunc (x, s, o, w, w)", False),  # of the other pass
    (f"{K} y = {Q}.Quant (x, k, , w)", False),
]


def require_inlining(body: str, inlines: bool) -> None:
    functions = f'<domain: "f", {IMPORTS}> F <flag> (x, s) => (y) {{ {body} }}'
    functions += f' <domain: "f", {IMPORTS}> G (x) => (y) {{ y = Neg (x) }}'
    model = model_of("a = f.G (x) y = f.F <flag = 1> (a, s)", functions)
    model.functions["f", "H", ""] = placeholder("f", "H")  # nothing to inline
    result = LowerQuant(PLAIN)(model)
    assert sorted(name for _, name, _ in model.functions) == (["H"] if inlines else ["F", "G", "H"])
    reasons = [record.reason for record in result.records.rewrites if record.rule == "inline-functions"]
    assert len(reasons) == inlines


def test_functions_that_hand_parameters_on_are_inlined() -> None:
    check_all(require_inlining, FUNCTIONS)


def test_a_target_that_does_not_load_calls_gets_none() -> None:
    functions = f'<domain: "f", {IMPORTS}> F (x) => (y) {{ {K} y = {Q}.Quant (x, k, o, w) }}'
    for body, target, left, reason in (
        ("y = f.F (x)", PLAIN, 1, ""),
        ("y = f.F (x)", CALLS_UNCONVERTED, 0, "u does not load calls of functions"),
        (f"y = {Q}.Quant (x, s, z, b)", CALLS_UNCONVERTED, 1, ""),  # the function is not called
    ):
        model = model_of(body, functions)
        rewrites = LowerQuant(target)(model).records.rewrites
        assert len(model.functions) == left
        told = [record.reason for record in rewrites if record.rule == "inline-functions"]
        assert [reason in text for text in told] == [True] * bool(reason)


def test_placeholders_of_the_operators_leave_with_them() -> None:
    """A function without nodes defines nothing; what is still called, or means something, stays."""
    model = model_of(
        f"c = {Q}.BipolarQuant (x, s) a = {Q}.Trunc (c, s) y = {Q}.Quant (a, s, z, b)",
        f'<domain: "{Q}", {IMPORTS}> BipolarQuant (x, s) => (y) {{ y = Mul (x, s) }}'
        f' <domain: "{Q}", {IMPORTS}> FloatQuant (x, s) => (y) {{ y = Mul (x, s) }}',
    )
    for identifier in ((Q, "Quant"), (Q, "IntQuant"), (Q, "Trunc"), (Q, "Other"), ("com.acme", "Quant")):
        model.functions[*identifier, ""] = placeholder(*identifier)
    assert LowerQuant(PLAIN)(model).modified
    assert {(domain, name) for domain, name, _ in model.functions} == {
        (Q, "Trunc"), (Q, "Other"), ("com.acme", "Quant"), (Q, "BipolarQuant"), (Q, "FloatQuant"),
    }  # fmt: skip
    assert [node.op_type for node in all_nodes(model) if node.domain == Q] == ["BipolarQuant", "Trunc"]
    assert model.graph.opset_imports[Q] == 1


DEFAULTS: list[tuple[int, str, str, list[str], list[str]]] = [
    # IR version, further inputs, the node, those that become constants, those left
    (10, "float b", f"{Q}.Quant (x, s, z, b)", ["b"], ["x"]),
    (10, "float b, float z, float s", f"{Q}.Quant (x, s, z, b)", ["b", "z"], ["x", "s"]),
    (10, "float b, float i", f"{Q}.Trunc (x, s, z, i, b)", [], ["x", "b", "i"]),
    (3, "float b, float i, float s, float z", f"{Q}.Quant (x, s, z, b)", ["b", "z"], ["x", "i", "s"]),
    (10, "float b, float other", f"{Q}.Quant (x, s, other, b)", ["b"], ["x", "other"]),
    (10, "float b", f"{Q}.Quant (x, s, z, x)", [], ["x", "b"]),  # refused
]


def require_defaults(ir_version: int, ports: str, node: str, constants: list[str], left: list[str]) -> None:
    model = model_of(f"y = {node}", ports=f"float[2] x, {ports}", ir_version=ir_version)
    result = LowerQuant(PLAIN)(model)
    records = [record for record in result.records.rewrites if record.rule == "make-constant"]
    assert sorted((record.site.node, record.effect) for record in records) == [
        (name, Effect.INTERFACE) for name in constants
    ]
    for record in records:
        assert record.site.graph == "g"
        name = record.site.node
        number = "0.0" if name == "z" else "4.0"
        assert record.before == f"input float[] {name} = {{{number}}}"
        assert record.after == f"constant float[] {name} = {{{number}}}"
        assert name not in model.graph.initializers  # no longer used
        assert all(node.outputs[0].name != name for node in model.graph)
    assert [value.name for value in model.graph.inputs] == left


def test_defaults_that_are_parameters_become_constants() -> None:
    check_all(require_defaults, DEFAULTS)


def test_a_default_that_is_used_elsewhere_stays_as_a_constant() -> None:
    for ir_version in (3, 10):
        ports = "float[2] x, float b, float i, float s, float z" if ir_version == 3 else "float[2] x, float b"
        model = model_of(f"a = {Q}.Quant (x, s, z, b) y = Mul (a, b)", ports=ports, ir_version=ir_version)
        LowerQuant(PLAIN)(model)
        (constant,) = (node.inputs[1] for node in model.graph if node.outputs[0].name == "y")
        assert constant is not None
        assert (constant.name, constant.is_graph_input()) == ("b", False)
        assert (constant.producer() is not None) == (ir_version == 3)
        assert (constant.name in model.graph.initializers) == (ir_version == 10)


def test_a_pass_takes_its_own_operators() -> None:
    for lower, left in ((LowerQuant(PLAIN), ["Trunc"]), (LowerTrunc(PLAIN), ["Quant"])):
        model = model_of(f"a = {Q}.Trunc (x, s, z, i, b) y = {Q}.Quant (a, s, z, b)")
        assert lower(model).modified
        assert [node.op_type for node in model.graph if node.domain == Q] == left
