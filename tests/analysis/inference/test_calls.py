"""Functions are typed in each of their calls."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.calls import free_identifier, signature_text
from castsmith.analysis.inference.walk import called_with_several_types, infer_element_types
from castsmith.numerics.promotion.rules import PromotionRules
from tests.analysis.inference.test_disagreement import UNSAFE, parsed, types

_CALLS = """g (float16[2] h, float[2] x) => (y, z) {{ y = f.add (h, {0}) z = f.add ({1}, x) }}
    <domain: "f", opset_import: ["" : 21]> add (a, b) => (r) {{ s = Neg (b) r = Add (a, s) }}"""


def test_a_function_is_typed_in_each_call() -> None:
    once, twice = parsed(_CALLS.format("x", "h")), parsed(_CALLS.format("h", "x"))
    (function,) = twice.functions.values()
    assert types(once) == [DataType.FLOAT, DataType.FLOAT]
    assert types(twice) == [DataType.FLOAT16, DataType.FLOAT]
    found = infer_element_types(twice, UNSAFE)
    assert called_with_several_types(found) == {function.graph}
    assert {tuple(dtype for dtype, _ in each) for each in found.signatures[function]} == {
        (DataType.FLOAT16, DataType.FLOAT16), (DataType.FLOAT, DataType.FLOAT),
    }  # fmt: skip
    assert not found.to_convert
    found, (function,) = infer_element_types(once, UNSAFE), once.functions.values()
    assert called_with_several_types(found) == frozenset()
    assert found.to_convert
    assert [each.common for each in found.disagreements[function[-1]]] == [DataType.FLOAT]


def test_a_rank_counts_in_a_call_if_the_rules_ask_for_it() -> None:
    text = """g (float[2] x, double d) => (y) { y = f.add (x, d) }
        <domain: "f", opset_import: ["" : 21]> add (a, b) => (r) { r = Add (a, b) }"""
    torch = PromotionRules(promote_unsafe=True, pytorch_scalar_promotion=True)
    assert (types(parsed(text)), types(parsed(text), torch)) == ([DataType.DOUBLE], [DataType.FLOAT])
    assert types(parsed(text.replace("double d", "double[2] d")), torch) == [DataType.DOUBLE]
    alike = parsed(text.replace("double", "float").replace("d) }", "d) z = f.add (x, x) w = f.add (d, x) }"))
    for rules, count in ((UNSAFE, 1), (torch, 3)):
        (signatures,) = infer_element_types(alike, rules).signatures.values()
        assert len(signatures) == count


_FUNCTIONS = " ".join(
    f'<domain: "f", opset_import: ["" : 21, "f" : 1]> {text}'
    for text in (
        "add (a, b) => (r) { r = Add (a, b) }",
        "outer (a, b) => (r) { s = f.add (a, b) r = f.add (b, b) }",
        "neg (a) => (r) { r = Neg (a) }",
        "half (a) => (r) { c = Cast <to = 10> (a) s = f.neg (c) r = f.neg (a) }",
    )
)
_SPECIALISED = {
    "y = f.add (h, x)": ("", ""),  # one signature
    "a = f.add (h, h) y = f.add (x, x)": ("", "a y"),  # nothing to convert
    "a = f.add (h, x) y = f.add (x, x)": ("a y", "a y"),
    "y = f.outer (h, x)": ("s r", "s r"),  # the calls in it, which are of several signatures
    "a = f.outer (h, h) y = f.outer (x, x)": ("", "a y"),
    "a = f.outer (h, x) y = f.outer (x, x)": ("a y", "a y"),
    "a = f.outer (h, x) y = f.add (x, h)": ("s r y", "s r y"),
    "y = f.half (x)": ("", "s r"),
    "a = f.half (i) y = f.half (x)": ("", "a y"),  # neither is of float16, but what they call
}
"""Calls, and those whose callee is cloned: for the conversions alone, and so that none is called with float16."""


def test_the_calls_whose_callee_is_cloned() -> None:
    for body, expected in _SPECIALISED.items():
        model = parsed(f"g (float16[2] h, float[2] x, int8[2] i) => (y) {{ {body} }} {_FUNCTIONS}")
        calls = infer_element_types(model, UNSAFE).calls
        found = [calls.to_specialise(types) for types in ((), (DataType.FLOAT16,))]
        assert tuple(" ".join(str(node.outputs[0].name) for node in nodes) for nodes in found) == expected, body
        for node, (function, signature) in found[1].items():
            assert function.identifier() == node.op_identifier()
            assert len(signature) == len(node.inputs)


_REPAIRED = {
    "r = Add (a, b)": True,
    "r = Identity (b)": False,
    "r = Pow (b, b)": True,  # not of int64 at this opset
    "s = Abs (b) r = Identity (a)": False,
    "r = If (q) <then_branch = t () => (u) {u = Identity (a)}, else_branch = e () => (v) {v = Identity (b)}>": True,
    "r = If (q) <then_branch = t () => (u) {u = Identity (b)}, else_branch = e () => (v) {v = Identity (b)}>": False,
    "r = Loop (n, q, b) <body = l (i, c, s) => (k, t) { k = Identity (c) t = Identity (a) }>": True,  # the state
    "r = Loop (n, q, a) <body = l (i, c, s) => (k, t) { k = Identity (c) t = Identity (b) }>": True,  # what is returned
    "r = Loop (n, q, a) <body = l (i, c, s) => (k, t) { k = Identity (c) t = Identity (s) }>": False,
    "r = f.inner (b)": True,
    "c = Cast <to = 7> (b) r = f.inner (c)": False,  # which is of one signature: it is converted where it is
}
"""Bodies of a function, and whether it is cloned for what they convert: a is double, b is int64 in one of its calls."""


def test_functions_that_are_cloned_for_what_they_convert() -> None:
    """Operands that differ, types that an operator lacks, states, outputs of branches, and all of these in calls."""
    head = '<domain: "f", opset_import: ["" : 6, "f" : 1]>'
    for body, expected in _REPAIRED.items():
        model = onnx_ir.from_onnx_text(
            f"""<ir_version: 10, opset_import: ["" : 6, "f" : 1]>
            g (int64 n, bool q, double[2] d, int64[2] i) => (y, z) {{
                y = f.outer (n, q, d, i) z = f.outer (n, q, d, d)
            }}
            {head} outer (n, q, a, b) => (r) {{ {body} }} {head} inner (b) => (r) {{ r = Pow (b, b) }}"""
        )
        calls = infer_element_types(model, UNSAFE).calls
        assert len(calls.live()[model.functions["f", "outer", ""]]) == 2
        assert bool(calls.to_specialise()) == expected, body


def test_names_of_clones_are_free() -> None:
    functions = {("f", name, ""): onnx_ir.Function("f", name, graph=onnx_ir.Graph([], [], nodes=[]), attributes=[])
                 for name in ("add", "add_int8", "add_int8_1", "add_int64_1")}  # fmt: skip
    assert free_identifier(functions, ("f", "add", ""), "int8") == ("f", "add_int8_2", "")
    assert free_identifier(functions, ("f", "add", "o"), "int8") == ("f", "add_int8", "o")
    assert free_identifier(functions, ("f", "add", ""), "int64") == ("f", "add_int64", "")
    for signature, text in (
        ((), "none"),
        (((DataType.FLOAT16, None), (None, None)), "float16_any"),
        (((DataType.INT8, 0), (None, 2)), "int80d_any2d"),
    ):
        assert signature_text(signature) == text


_NEG = '<domain: "f", opset_import: ["" : 21]> neg (a) => (r) { r = Neg (a) }'


def test_a_call_with_an_unknown_type_says_nothing_of_its_result() -> None:
    for calls in ("p = f.neg (x) q = f.neg (u)", "q = f.neg (u) p = f.neg (x)"):
        model = parsed(f"g (float[2] x) => (p, q) {{ u = f.Nothing (x) {calls} }} {_NEG}")
        assert types(model) == [DataType.FLOAT, None]


def test_a_body_has_the_types_of_the_calls_that_count() -> None:
    """A Loop tries float, and then double, which another has found before: double is what the calls take."""
    loop = """y{0} = Loop (n, , {1}) <body = b{0} (int64 i{0}, bool c{0}, s{0}) => (bool k{0}, t{0})
        {{ k{0} = Identity (c{0}) v{0} = f.neg (s{0}) t{0} = Mul (v{0}, d) }}>"""
    loops = f"{loop.format(1, 'h')} {loop.format(2, 'x')}"
    model = parsed(f"g (int64 n, float16[2] h, float[2] x, double[2] d) => (y1, y2) {{ {loops} }} {_NEG}")
    found, (function,) = infer_element_types(model, UNSAFE), model.functions.values()
    assert [found.type_of(value) for value in (*function.inputs, *function.outputs)] == [DataType.DOUBLE] * 2
    assert found.signatures == {function: {((DataType.DOUBLE, None),)}}
