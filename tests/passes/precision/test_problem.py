"""The rule that decides each node: one line is a model, and which nodes keep their type, with the reason."""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx.checker
import onnx.parser
from onnx_ir import DataType

from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.io.loading import from_proto
from castsmith.ir.io.protos import to_proto
from castsmith.ir.walks import all_nodes, holders, imports_by_scope
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.session import Session
from castsmith.passes.place.sizes import Sizes
from castsmith.passes.precision.constants import RoundingLosses
from castsmith.passes.precision.evidence import Evidence, Known
from castsmith.passes.precision.ports import Aim
from castsmith.passes.precision.problem import Problem
from castsmith.passes.precision.run import SOURCES, ConvertPrecision, PrecisionResult
from tests.sampling import check_all

STANDARD = '"": 17, "com.microsoft": 1, "local": 1, "com.acme": 1'
BEYOND = "a reaches 1e+06 (proven), beyond float16"
EXP = "Exp stays in a wider type by default: its results span more orders of magnitude than 16 bits hold"
SQUARES = "ReduceSumSquare stays in a wider type by default: {}, which overflow or vanish in 16 bits"
WITHOUT = "the model does not import ONNX's operators, which include Cast"

ROWS: list[tuple[str, str, dict[str, Any], str]] = [
    # the imports, the model, the options and the bounds of values; which nodes keep their type, and the casts
    # What is known of a value decides before its operator does, and after what a person asks for.
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Relu (x) y = MatMul (a, a) }", {"a": 1e6},
     f"a: {BEYOND}; y: {BEYOND}"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Relu (x) y = MatMul (a, a) }", {"a": 1e6, "lower": "op:Relu"},
     f"x -> float16; a -> float; y: {BEYOND}"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Relu (x) y = MatMul (a, a) }", {"a": 1e6, "keep": "op:Relu"},
     f"a: as requested by op:Relu; y: {BEYOND}"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Exp (x) y = MatMul (a, a) }", {"a": 1e6},
     f"a: {BEYOND}; y: {BEYOND}"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Exp (x) y = MatMul (a, a) }", {},
     f"a: {EXP}; a -> float16; y -> float"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Exp (x) y = MatMul (a, a) }", {"a": 1e4},
     "x -> float16; y -> float"),
    # A result that is proven to fit is made in the precision; a square only if it is not too small, and a measured one
    # only if a sixteenth of what fits.
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Exp (x) y = MatMul (a, a) }", {"a": 2.0**-9},
     "x -> float16; y -> float"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Exp (x) y = MatMul (a, a) }",
     {"a": Known(0, 4094.9, "measured")}, "x -> float16; y -> float"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Exp (x) y = MatMul (a, a) }",
     {"a": Known(0, 4095.0, "measured")}, f"a: {EXP}; a -> float16; y -> float"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { a = Exp (x) y = MatMul (a, a) }",
     {"a": Known(0, 65519.0, "stated")}, "x -> float16; y -> float"),
    (STANDARD, "(float[4,4] x) => (float[1,1] y) { a = ReduceSumSquare (x) y = MatMul (a, a) }", {"a": 2.0**-8},
     "x -> float16; y -> float"),
    (STANDARD, "(float[4,4] x) => (float[1,1] y) { a = ReduceSumSquare (x) y = MatMul (a, a) }", {"a": 2.0**-9},
     f"a: {SQUARES.format('its statistics add up squares')}; a -> float16; y -> float"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) <float n = {2}> { a = Pow (x, n) y = MatMul (a, a) }", {"a": 2.0**-9},
     f"a: {EXP.replace('Exp', 'Pow')}; a -> float16; y -> float"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) <float n = {3}> { a = Pow (x, n) y = MatMul (a, a) }", {"a": 2.0**-9},
     "x -> float16; y -> float"),
    # If something is known not to fit, a cast at an input costs as much as elsewhere.
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { y = Relu (x) b = Abs (x) }", {}, "x -> float16; y -> float"),
    (STANDARD, "(float[4,4] x) => (float[4,4] y) { y = Relu (x) b = Abs (x) }", {"b": 1e6},
     f"y: the casts around it would cost more than it saves; b: {BEYOND.replace('a', 'b', 1)}"),
    # So does what is handed on, at both ends.
    (STANDARD, "(float[4,4] x, bool c) => (float[4,4] y) { y = If (c) <then_branch = t () => (float[4,4] a)"
     " { a = MatMul (x, x) }, else_branch = e () => (float[4,4] q) { q = MatMul (x, x) }> }", {"a": 1e6},
     f"x -> float16; a: {BEYOND}; q -> float"),
    (STANDARD, "(float[4,4] x, bool c) => (float[4,4] y) { a = If (c) <then_branch = t () => (float[4,4] p)"
     " { p = MatMul (x, x) }, else_branch = e () => (float[4,4] q) { q = MatMul (x, x) }> y = Relu (a) }", {"a": 1e6},
     f"x -> float16; p -> float; q -> float; y: {BEYOND}"),
    # What is asked of an input is done at any cost.
    (STANDARD, "(float[3000000,3000000] x) => (float[3000000,3000000] y) { a = Exp (x) y = Abs (a) }",
     {"x": 1e6, "io": "convert", "keep": "*"}, "x -> float; a: as requested by *; y: as requested by *; y -> float16"),
    # Where no node is of the standard none is converted, though Cast can be imported for those outside.
    ('"com.microsoft": 1', "(float[4,4] x) => (float[4,4] y) { y = com.microsoft.Gelu (x) }", {}, f"y: {WITHOUT}"),
    ('"com.microsoft": 1, "": 17', "(float[4,4] x) => (float[4,4] y) { y = com.microsoft.Gelu (x) }", {},
     "x -> float16; y -> float"),
    ('"": 17, "local": 1', "(float[4,4] x) => (float[4,4] y) { a = local.f (x) y = MatMul (a, a) } <domain: \"local\","
     ' opset_import: ["com.microsoft": 1]> f (p) => (q) { q = com.microsoft.Gelu (p) }', {},
     f"y -> float; q: {WITHOUT}; q -> float16"),
]  # fmt: skip


def judged(imports: str, text: str, options: dict[str, Any]) -> str:
    """The nodes that keep their type, with the reason, and the casts, in the order of the model."""
    header = f"<ir_version: 8, opset_import: [{imports}]> g "
    named = {name: options[name] for name in ("to", "io", "lower", "keep") if name in options}
    stated = {name: most for name, most in options.items() if name not in named}
    bounds = {name: Known(-most, most, "proven") if isinstance(most, float) else most for name, most in stated.items()}
    result = ConvertPrecision(bound=bounds.get, **named)(from_proto(onnx.parser.parse_model(header + text)))
    assert isinstance(result, PrecisionResult)
    onnx.checker.check_model(to_proto(result.model), full_check=True)
    to = named.get("to", "float16")
    kept = {each.result: each.reason for each in result.precisions.values() if each.dtype.name.lower() != to}
    parts: list[str] = []
    for node in all_nodes(result.model):
        name = (node.outputs[0].name or "").removesuffix("_float16").removesuffix("_float")
        if (node.name or "").startswith("castsmith_"):
            parts.append(f"{name} -> {DataType(node.attributes.get_int('to')).name.lower()}")
        elif name in kept:
            parts.append(f"{name}: {kept.pop(name)}")
    return "; ".join(parts + [f"{name}: {reason}" for name, reason in kept.items()])


def require_judged(imports: str, text: str, options: dict[str, Any], expected: str) -> None:
    assert judged(imports, text, options) == expected


def test_which_rule_decides() -> None:
    check_all(require_judged, ROWS)


def test_each_use_is_stated_once_however_often_a_function_is_called() -> None:
    model = from_proto(
        onnx.parser.parse_model(
            f"<ir_version: 8, opset_import: [{STANDARD}]> g (float[4,4] x, int64 n) => (float[4,4] y) <bool t = {{1}}>"
            " { a = local.f (x) b = local.f (a) c = Loop (n, t, b) <body = s (int64 i, bool d, float[4,4] p) =>"
            " (bool e, float[4,4] q) { e = Identity (d) q = local.f (p) }> y = Add (c, c) }"
            ' <domain: "local", opset_import: ["": 17]> f (p) => (r) { r = Relu (p) }'
        )
    )
    to = DataType.FLOAT16
    inference = Session(model).inference(PromotionRules(promote_unsafe=True))
    problem = Problem(
        *(model, inference, imports_by_scope(model, holders(model)), Aim(to, SOURCES[to], None), {}, {}),
        *(frozenset[str](), Evidence(model, to, None), Sizes(Shapes(model, inference), 64, {}), RoundingLosses(to)),
    )
    problem.state()
    stated = Counter((use.place, use.index) for uses in problem.uses.values() for use in uses)
    assert set(stated.values()) == {1}
    assert Counter(use.value.name for uses in problem.uses.values() for use in uses) == {
        **dict.fromkeys("xab", 1), "c": 2, "y": 1, "p": 2, "q": 1, "r": 1,
    }  # fmt: skip
