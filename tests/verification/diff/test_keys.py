"""Models that are written differently and compute the same, beside those one step from it that do not."""

from __future__ import annotations

import onnx_ir
import pytest

from castsmith.verification.diff.keys import attributes_without_defaults, operator_key
from tests.verification.diff.test_graphs import changes

_HEAD = '<ir_version: 10, opset_import: ["" : 21, "f" : 1, "ai.onnx.ml" : 3]> '
_X = "g (float[2] x) => (float[2] y)"
_CALL = f"""{_HEAD} {_X} {{ y = f.h <k = 2.0> (x) }} <domain: "f", opset_import: ["" : 21]> h <k, j> (p) => (q) {{
    r = Constant <value_float: float = @k> () q = Add (p, r) }}"""
_FUNCTION = ' <domain: "f", opset_import: ["" : 21]> {} (p) => (q) {{ q = Abs (p) }}'
_BRANCHES = """g (bool c, float[2] x, float[2] z) => (float[2] y) { a = Abs (x) y = If (c) <
    then_branch = t () => (float[2] p) { o = Neg (a) p = Add (o, z) },
    else_branch = e () => (float[2] q) { q = Abs (x) }> }"""


def _inner(nodes: str) -> str:
    return f"f.n <g = i (float[2] a, float[2] b) => (float[2] r) {{ {nodes} }}> (x)"


ALIKE: dict[str, tuple[str, str]] = {
    "a Constant for an initializer": (
        f"{_X} {{ c = Constant <value_floats = [1.0, 2.0]> () y = Add (x, c) }}",
        f"{_X} <float[2] w = {{1, 2}}> {{ y = Add (x, w) }}",
    ),
    "the domain in words": (f"{_X} {{ y = ai.onnx.Elu <alpha = 1.0> (x) }}", f"{_X} {{ y = Elu (x) }}"),
    "operands that are left out, named or not": (f"{_X} {{ y = Clip (x, , ) }}", f"{_X} {{ y = Clip (x) }}"),
    "an attribute at its default": (f"{_X} {{ y = Elu <alpha = 1.0> (x) }}", f"{_X} {{ y = Elu (x) }}"),
    "one of another domain": (
        f"{_X} {{ y = ai.onnx.ml.Binarizer <threshold = 0.0> (x) }}",
        f"{_X} {{ y = ai.onnx.ml.Binarizer (x) }}",
    ),
    "attributes in another order": (
        f'{_X} {{ y = f.n <a = 1, b = "t"> (x) }}', f'{_X} {{ y = f.n <b = "t", a = 1> (x) }}'
    ),
    # Unused nodes of other names in another order, which nothing but what they compute matches.
    **{
        f"{one}, {other}": (
            f"{_X} {{ u = {one} v = {other} y = Neg (x) }}", f"{_X} {{ s = {again} t = {first} y = Neg (x) }}"
        )
        for one, first, other, again in (
            ("Clip (x, , )", "Clip (x)", "Clip (x, x, )", "Clip (x, x)"),
            ("Elu <alpha = 0.5> (x)",) * 2 + ("Elu <alpha = 0.25> (x)",) * 2,
            ("f.n <a = 1, b = 2> (x)", "f.n <b = 2, a = 1> (x)", "f.n <a = 1, b = 3> (x)", "f.n <b = 3, a = 1> (x)"),
            (_inner("r = Sub (a, b)"),) * 2 + (_inner("r = Sub (b, a)"),) * 2,
            (_inner("r = Neg (x)"),) * 2 + (_inner("c = Abs (x) r = Neg (x)"),) * 2,
            (_inner("r = Neg (x)"),) * 2 + (_inner("r = Neg (x)").replace(", float[2] b", ""),) * 2,
            (_inner("r = Neg (x) c = Abs (x)"),) * 2 + (_inner("r = Neg (x) c = Abs (x)").replace("r)", "c)"),) * 2,
            (_inner("r = Neg (x) c = Abs (x)"), _inner("c = Abs (x) r = Neg (x)")) + (_inner("r = Neg (x)"),) * 2,
        )
    },
    "names in a branch": (_BRANCHES, _BRANCHES.replace("o ", "u ").replace("(o", "(u")),
}  # fmt: skip
UNLIKE: dict[str, tuple[str, str, list[str]]] = {
    "another Constant": (
        f"{_X} {{ c = Constant <value_floats = [1.0, 2.0]> () y = Add (x, c) }}",
        f"{_X} <float[2] w = {{1, 3}}> {{ y = Add (x, w) }}",
        ["constant-changed"],
    ),
    "a Constant of a parameter": (_CALL, _CALL.replace("@k", "@j"), ["attribute-changed"]),
    "another domain": (f"{_X} {{ y = Relu (x) }}", f"{_X} {{ y = f.Relu (x) }}", ["operator-changed"]),
    "a zero of another sign": (
        f"{_X} {{ y = ai.onnx.ml.Binarizer <threshold = -0.0> (x) }}",
        f"{_X} {{ y = ai.onnx.ml.Binarizer (x) }}",
        ["attribute-changed"],
    ),
    "an attribute that has no default": (
        f"{_X} {{ y = Transpose <perm = [0]> (x) }}", f"{_X} {{ y = Transpose (x) }}", ["attribute-changed"]
    ),
    "an attribute of an operator that is unknown": (
        f"{_X} {{ y = f.n <alpha = 1.0> (x) }}", f"{_X} {{ y = f.n (x) }}", ["attribute-changed"]
    ),
    "an attribute in a domain that is not imported": (
        f"{_X} {{ y = u.Elu <alpha = 1.0> (x) }}", f"{_X} {{ y = u.Elu (x) }}", ["attribute-changed"]
    ),
    "another result of one node": (
        f"{_X} {{ a, b = f.n (x) y = Neg (a) }}", f"{_X} {{ a, b = f.n (x) y = Neg (b) }}", ["operand-changed"]
    ),
    "operands that are left out elsewhere": (
        f"{_X} {{ y = f.n (x, , x) }}", f"{_X} {{ y = f.n (x, x) }}", ["operand-changed"] * 2
    ),
    "a value from outside of a branch": (
        _BRANCHES, _BRANCHES.replace("Neg (a)", "Neg (x)"), ["operand-changed"]
    ),
    "an input of a branch for another": (
        f"""{_X} {{ y = f.n <b = i (float[2] s, float[2] t) => (float[2] r) {{ r = Sub (s, t) }}> (x) }}""",
        f"""{_X} {{ y = f.n <b = i (float[2] s, float[2] t) => (float[2] r) {{ r = Sub (t, s) }}> (x) }}""",
        ["operand-changed"] * 2,
    ),
    "a node in a branch that nothing uses": (
        f"""{_X} {{ y = f.n <b = i () => (float[2] r) {{ r = Neg (x) }}> (x) }}""",
        f"""{_X} {{ y = f.n <b = i () => (float[2] r) {{ u = Abs (x) r = Neg (x) }}> (x) }}""",
        ["node-added"],
    ),
    "a branch that gives a result twice": (
        f"{_X} {{ y = f.n <b = i () => (float[2] r, float[2] r) {{ r = Neg (x) }}> (x) }}",
        f"{_X} {{ y = f.n <b = i () => (float[2] r, float[2] s) {{ r = Neg (x) s = Neg (x) }}> (x) }}",
        ["node-added"],
    ),
    "functions": (_CALL, _CALL + "".join(map(_FUNCTION.format, "bdc")), ["function-added"] * 3),
    "a branch of another result": (
        f"""{_X} {{ y = f.n <b = i () => (float[2] r) {{ r = Neg (x) u = Abs (x) }}> (x) }}""",
        f"""{_X} {{ y = f.n <b = i () => (float[2] u) {{ r = Neg (x) u = Abs (x) }}> (x) }}""",
        ["operand-changed"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_models_that_compute_the_same(name: str) -> None:
    for text, other in (ALIKE[name], ALIKE[name][::-1]):
        assert changes(text if text.startswith("<") else _HEAD + text, _HEAD + other) == []


@pytest.mark.parametrize("name", UNLIKE)
def test_models_that_do_not(name: str) -> None:
    text, other, kinds = UNLIKE[name]
    head = "" if text.startswith("<") else _HEAD
    for pair in ((text, other), (other, text)):
        found = [change[0] for change in changes(*(head + side for side in pair))]
        assert found == [kind.replace("added", "removed") if pair[0] == other else kind for kind in kinds]


def test_a_reference_is_not_at_its_default_and_without_opsets_nothing_is() -> None:
    """Of a node that belongs to no graph too."""
    refers = onnx_ir.Attr("alpha", onnx_ir.AttributeType.FLOAT, 1.0, "k")
    elu = onnx_ir.Node("", "Elu", [onnx_ir.Value(name="x")], [refers])
    plain = onnx_ir.node("Elu", [onnx_ir.Value(name="x")], {"alpha": 1.0})
    text = onnx_ir.node("Elu", [onnx_ir.Value(name="x")], {"alpha": "1.0"})
    assert [list(attributes_without_defaults(node, {"": 21})) for node in (elu, plain, text)] == [
        ["alpha"],
        [],
        ["alpha"],
    ]
    assert list(attributes_without_defaults(plain, None)) == list(attributes_without_defaults(plain, {})) == ["alpha"]
    assert operator_key(onnx_ir.Node("ai.onnx", "Elu", [], overload="o")) == ("", "Elu", "o")


def test_functions_are_told_by_name() -> None:
    names = "fedcab"
    assert [change[1] for change in changes(_CALL, _CALL + "".join(map(_FUNCTION.format, names)))] == [
        f"f.{name}" for name in sorted(names)
    ]
