"""How undeclared values hold their tensors: what each operator, branch, turn and call makes of a sequence."""

from __future__ import annotations

from onnx_ir import OptionalType, SequenceType

from castsmith.analysis.inference.containers import nestings
from tests.analysis.inference.test_disagreement import parsed

_INPUTS = "float[2] x, seq(float[2]) s, optional(seq(float[2])) o, bool c, int64 n"
_FUNCTIONS = " ".join(
    f'<domain: "f", opset_import: ["" : 21, "f" : 1]> {text}'
    for text in (
        "same (fa) => (fr) { fr = Identity (fa) }",
        "pack (ga) => (gr) { gr = SequenceConstruct (ga) }",
        "Optional (ha) => (hr) { hr = Neg (ha) }",
        "SequenceConstruct (ka) => (kr) { kr = Neg (ka) }",
    )
)
_BODIES = {
    "y = SequenceConstruct (x, x)": "y: seq",
    "y = SequenceEmpty ()": "y: seq",
    "y = SplitToSequence (x)": "y: seq",
    "y = SequenceInsert (s, x)": "y: seq",
    "y = SequenceErase (s)": "y: seq",
    "y = Identity (s)": "y: seq",
    "y = Identity (x)": "",
    "y = Optional (x)": "y: optional",
    "y = Optional (s)": "y: optional seq",
    "y = OptionalGetElement (o)": "y: seq",
    "y = OptionalGetElement (s)": "y: seq",
    "y = OptionalGetElement (x)": "",
    "a = Optional (x) y = OptionalGetElement (a)": "a: optional",
    "a = Optional (s) b = Identity (a) d = OptionalGetElement (b) y = Identity (d)": (
        "a: optional seq, b: optional seq, d: seq, y: seq"
    ),
    "y = Optional ()": "y: optional",
    "y = other.Identity (s)": "",
    "y = other.Optional (x)": "",
    "y = other.OptionalGetElement (o)": "",
    "y = other.SequenceConstruct (x)": "",
    "y = other.SequenceMap (s)": "",
    "y = OptionalHasElement (o)": "",
    "y = SequenceAt (s, n)": "",
    "y = ConcatFromSequence <axis = 0> (s)": "",
    "y = SequenceLength (s)": "",
    "y = SequenceMap (s) <body = m (e) => (r) { r = Neg (e) }>": "y: seq",  # e and r are elements
    "y = If (c) <then_branch = t () => (a) { a = Identity (s) }, else_branch = e () => (b) { b = Identity (s) }>": (
        "a: seq, b: seq, y: seq"
    ),
    "a2 = Optional (x) y = If (c) <then_branch = t () => (a) { a = Optional (x) },"
    " else_branch = e () => (b) { b = Identity (a2) }>": "a: optional, a2: optional, b: optional, y: optional",
    "q = SequenceConstruct (x) y = Loop (n, c, q) <body = l (int64 i, bool k, z) => (bool k2, z2)"
    " { k2 = Identity (k) z2 = Identity (z) }>": "q: seq, y: seq, z: seq, z2: seq",
    "y = Loop (n, c, x) <body = l (int64 i, bool k, z) => (bool k2, z2) { k2 = Identity (k) z2 = Neg (z) }>": "",
    "y = f.same (s)": "fa: seq, fr: seq, y: seq",
    "y = f.same (o)": "fa: optional seq, fr: optional seq, y: optional seq",
    "y = f.same (x)": "",
    "y = f.pack (x)": "y: seq",
    "y = f.Optional (s)": "ha: seq",
    "y = f.SequenceConstruct (x)": "",
}
"""What is not declared and holds tensors, by name; `gr` always does."""
_RESULTS = {
    # What is declared is a result; what it was made of, and what follows from that.
    ("seq(float[2])", "a = other.Own (x) b = Neg (a) y = Identity (a)"): "a: seq, y: seq",
    ("optional(seq(float[2]))", "a = other.Own (x) y = Optional (a)"): "a: seq, y: optional seq",
    ("optional(float[2])", "a = other.Own (x) y = Optional (a)"): "y: optional",
    ("seq(float[2])", "a = other.Own (x) y = OptionalGetElement (a)"): "y: seq",
    ("seq(float[2])", "a = other.Own (x) d = OptionalGetElement (a) y = Identity (d)"): "d: seq, y: seq",
}
_WORDS = {SequenceType: "seq", OptionalType: "optional"}


def test_what_holds_tensors() -> None:
    for body, expected in _BODIES.items():
        found = nestings(parsed(f"g ({_INPUTS}) => (y) {{ {body} }} {_FUNCTIONS}"))
        texts = {str(value.name): " ".join(_WORDS[each] for each in nesting) for value, nesting in found.items()}
        declared = [texts.pop(name) for name in ("s", "o", "gr")]
        assert declared == ["seq", "optional seq", "seq"]
        assert ", ".join(f"{name}: {texts[name]}" for name in sorted(texts)) == expected, body


def test_what_was_made_of_what_holds_tensors() -> None:
    for (declared, body), expected in _RESULTS.items():
        found = nestings(parsed(f"g (float[2] x) => ({declared} y) {{ {body} }}"))
        texts = {str(value.name): " ".join(_WORDS[each] for each in nesting) for value, nesting in found.items()}
        assert ", ".join(f"{name}: {texts[name]}" for name in sorted(texts)) == expected, body
