"""Which finding another one follows from: only one about types whose wrong type was passed on."""

from __future__ import annotations

import onnx.parser
import pytest

from castsmith import check
from tests.sampling import check_all

pytestmark = pytest.mark.usefixtures("untried")

HEAD = '<ir_version: 10, opset_import: ["" : 21, "local" : 1]>'
X = "g (float[2] x, int32[2] n, int64[2] l, float[2] v)"
A = "a = Add (x, n)"
CASES: dict[str, tuple[str, list[str]]] = {
    "one finding": (f"{X} => (y) {{ {A} y = Neg (a) }}", ["a: None"]),
    "by an operator that passes the type on": (f"{X} => (y) {{ {A} b = Neg (a) y = Add (b, n) }}", ["a: None", "y: 0"]),
    "over two of them": (f"{X} => (y) {{ {A} b = Neg (a) c = Abs (b) y = Add (n, c) }}", ["a: None", "y: 0"]),
    "by another operand": (f"{X} => (y, z) {{ {A} y = Add (a, n) z = Add (v, n) }}", ["a: None", "y: 0", "z: None"]),
    "the first of two causes": (
        f"{X} => (y) {{ {A} b = Mul (v, n) y = Add (b, a) z = Sub (y, n) }}", ["a: None", "b: None", "z: 1"],
    ),
    "what follows from what follows": (
        f"{X} => (z) {{ {A} y = Add (a, n) z = Sub (y, n) }}",
        ["a: None", "y: 0", "z: 0"],
    ),
    "a result of another type": (f"{X} => (y) {{ {A} s = Shape (a) y = Add (s, n) }}", ["a: None", "y: None"]),
    "a comparison": (
        f"{X} => (y) {{ {A} b = Less (a, v) c = Cast <to = 1> (b) y = Add (c, n) }}",
        ["a: None", "y: None"],
    ),
    "a wrong index": (f"{X} => (y) {{ i = Add (n, l) b = Gather (v, i) y = Add (b, n) }}", ["i: None", "y: None"]),
    "a wrong operand beside an index": (f"{X} => (y) {{ {A} b = Gather (a, l) y = Add (b, n) }}", ["a: None", "y: 0"]),
    "an operand beside a wrong one": (
        f"{X} => (y, z) {{ {A} y = Add (a, v) z = Add (v, n) }}", ["a: None", "z: None"],
    ),
    "an output of a branch, which is no node's": (
        """g (bool c, float16[2] h, float[2] x, int32[2] n) => (float[2] y) {
            y = If (c) <then_branch = t () => (float16[2] p) { p = Abs (h) },
                        else_branch = e () => (float[2] q) { q = Add (x, n) }> }""", ["q: None", ": None"],
    ),
    "an unknown operator": (
        f"{X} => (y) {{ {A} b = local.Own (a) c = Add (v, b) y = Add (c, n) }}",
        ["a: None", "y: None"],
    ),
    "a call": (
        f"{X} => (y) {{ {A} b = local.f (a) y = Add (b, n) }}"
        ' <domain: "local", opset_import: ["" : 21]> f (u) => (w) { w = Neg (u) }', ["a: None", "y: None"],
    ),
    "in a branch": (
        f"""g (bool c, float[2] x, int32[2] n) => (y) {{ {A} y = If (c) <then_branch = t () => (p) {{ p = Mul (a, n) }},
            else_branch = e () => (q) {{ q = Neg (a) }}> }}""", ["a: None", "p: 0"],
    ),
    "two findings about one node": (
        "g (float[2] x, int32[2] n) => (int64[2] y) { y = Add (x, n) }",
        ["y: None", "y: 0"],
    ),
    "declarations": ("g (float[2] x) => (int32[2] y) <int64[2] a> { a = Abs (x) y = Neg (a) }", ["a: None", "y: 0"]),
    "an illegal type": ("g (uint16[2] u, int32[2] n) => (z) { y = Neg (u) z = Add (y, n) }", ["y: None", "z: 0"]),
}  # fmt: skip


def check_case(text: str, expected: list[str]) -> None:
    findings = check(onnx.parser.parse_model(HEAD + text))
    assert [f"{each.site.output}: {each.follows}" for each in findings if each.code != "unknown-operator"] == expected


def test_what_a_finding_follows_from() -> None:
    check_all(check_case, CASES.values())
