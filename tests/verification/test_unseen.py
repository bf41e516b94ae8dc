"""What the inputs did not cover, of computations in which two models differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import castsmith
from castsmith.verification import unseen
from castsmith.verification.checker import Kind, Term, Terms
from castsmith.verification.unseen import _apart, _place  # pyright: ignore[reportPrivateUsage]
from tests.sampling import check_all

_FLOAT, _INT64 = 1, 7
_VECTOR: Kind = (_FLOAT, (2,))


def _term(op: str, *args: Term | None, **attrs: Any) -> Term:
    return Term(op, args, attrs, 0, *_VECTOR, codes=False)


_TERMS = Terms(100)
_X, _Z = (_TERMS.term("input", (), {}, _VECTOR, key=name) for name in "xz")


def _constant(*numbers: int, dtype: Any = np.float32, kind: int = _FLOAT) -> Term:
    return _TERMS.constant(np.array(numbers, dtype), kind)


_ONE, _TWO = _constant(1), _constant(2)
_INTEGERS = [_constant(number, dtype=np.int64, kind=_INT64) for number in (3, 4)]
_APART = [
    (_term("Softmax", _X, **{"@": 11}), _term("Softmax", _X, **{"@": 13}), "version of Softmax"),
    *((_term(op, _X, **{"@": 13}), _term(op, _X, **{"@": 19}), "") for op in ("Cast", "QuantizeLinear")),
    (_term("TopK", _X, largest=0), _term("TopK", _X, largest=1), "largest of TopK"),
    (_term("TopK", _X), _term("TopK", _X, largest=1), "largest of TopK"),
    (_term("Elu", _X, alpha=b"1"), _term("Elu", _X, alpha=b"2"), "alpha of Elu"),
    (_term("Elu", _X, alpha=b"1"), _term("Elu", _X), "alpha of Elu"),
    (_term("Conv", _X, auto_pad=b"VALID"), _term("Conv", _X, auto_pad=b"SAME_UPPER"), "auto_pad of Conv"),
    (_term("A", _X, c=1, b=2), _term("A", _X, c=3, b=4), "b of A"),
    (_term("A", _X, c=1, b=2), _term("A", _X, c=1, b=2), ""),
    (_term("Transpose", _X, perm=(0, 1)), _term("Transpose", _X, perm=(1, 0)), ""),
    (_term("Transpose", _X, perm=(0, 1)), _term("Transpose", _X), ""),
    *(
        (_term("A", _X, **{name: 0}), _term("A", _X, **{name: 1}), "")
        for name in (
            *("axis", "keepdims", "start", "end", "to", "dtype", "auto_pad", "noop_with_empty_axes"),
            *("how", "table", "shape", "outputs"),
        )
    ),
    (_term("Conv", _X, _ONE), _term("Conv", _X, _TWO), "constant as operand 2 of Conv"),
    (_term("Conv", _ONE, _X), _term("Conv", _TWO, _X), "constant as operand 1 of Conv"),
    (_term("Conv", _X, _ONE), _term("Conv", _Z, _ONE), ""),
    (_term("Conv", None, _ONE), _term("Conv", _X, _ONE), ""),
    (_term("Reshape", _X, _INTEGERS[0]), _term("Reshape", _X, _INTEGERS[1]), ""),
    (_term("Mul", _X, _INTEGERS[0]), _term("Mul", _X, _INTEGERS[1]), "constant as operand 2 of Mul"),
    (
        _term("Slice", _X, *_INTEGERS, _ONE),
        _term("Slice", _X, *_INTEGERS[::-1], _TWO),
        "constant as operand 4 of Slice",
    ),
]


def test_the_number_in_which_two_operators_differ() -> None:
    def compare(term: Term, other: Term, expected: str) -> None:
        assert _apart(term, other) == expected

    check_all(compare, _APART)


def test_operators_correspond_by_their_operands() -> None:
    """Constants by type and shape."""
    alike = _term("Conv", _X, _TWO, None)
    assert _place(_term("Conv", _X, _ONE, None)) == _place(alike) != ()
    others = [_term("Conv", _Z, _ONE, None), _term("Gemm", _X, _ONE, None), _term("Conv", _X, _constant(1, 2), None)]
    others += [_term("Conv", _X, _INTEGERS[0], None), _term("Conv", _X, _X, None), _term("Conv", _X, _ONE)]
    second = _term("Conv", _X, _ONE, None)
    second.out = 1
    assert all(_place(other) != _place(alike) for other in [*others, second])
    assert _place(_X) == ()


_HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'
_SET = {
    "x": np.array([1, 2, 3, 4], np.float32),
    "c": np.array(True),
    "i": np.array([0, 2], np.int64),
}


def _unsure(a: str, b: str, **options: Any) -> list[str]:
    """The reasons for which two models cannot be called equal on one set of inputs."""
    names = [name for name in _SET if f" {name}" in a.partition("=>")[0]]
    inputs = [("mine", {name: _SET[name] for name in names})]
    models = [onnx.parser.parse_model(_HEAD + text) for text in (a, b)]
    verdict = castsmith.verify(*models, engine="reference", inputs=inputs, **options)
    assert not verdict.different
    return verdict.unsure


_IF = """g (float[4] x, bool c) => (float[4] y) {{ y = If (c) <then_branch = t () => (float[4] a) {{ a = {} (x) }},
    else_branch = e () => (float[4] b) {{ b = {} (x) }}> }}"""
_STORED = """g (float[4] x, bool c) => (float[4] y) { y = If (c) <then_branch = t () => (float[4] a) { a = Neg (x) },
    else_branch = e () => (float[4] b) <float[4] b = {1, 2, 3, 4}> { }> }"""
_LOOKED_UP = "g (int64[2] i) => (float[2] y) <float[3] w = {{1, {}, 3}}> {{ j = {} (i) y = Gather (w, j) }}"
_PICKED = "g (int64[2] i) => (float[2] y) <float[3] w = {{1, {}, 3}}> {{ j = {} (i) y = GatherElements (w, j) }}"
_MAPPED = """g (float[4] x) => (float[4] y) {{ s = SequenceConstruct (x) m = SequenceMap <body = b (float[4] p) =>
    (float[4] q) {{ q = {} (p) }}> (s) z = Constant <value_int = 0> () y = SequenceAt (m, z) }}"""
_GRAPHS = "the engine runs the graphs of g: m (SequenceMap) as a whole, and they differ in the {} model"
_WHERE = "g (float[4] x) => (float[4] y) <float k = {{9}}> {{ o = Less (x, k) n = {} (x) y = Where (o, x, n) }}"
_CLIP = "g (float[4] x) => (float[4] y) <float l = {{-1}}, float h = {{{}}}> {{ y = Clip (x, l, h) }}"
_LESS = """g (float[4] x) => (float[4] y) <float k = {{{}}}> {{ o = Less (x, k) c = Cast <to = 1> (o)
    y = Mul (x, c) }}"""
_ELU = "g (float[4] x) => (float[4] y) {{ y = Elu <alpha = {}> (x) }}"
_ELU_TWICE = "g (float[4] x) => (float[4] y) {{ a = Elu <alpha = {}> (x) b = Elu <alpha = {}> (x) y = Mul (a, b) }}"
_ELU_ONCE = "g (float[4] x) => (float[4] y) { b = Elu <alpha = 2.0> (x) y = Mul (b, b) }"
_BOTH = ("first", "second")
_TAKEN = "the else_branch of g: y (If) was never taken in the {} model"
_ROWS = "2 of the 3 rows of g: y (Gather) in the {} model were read"
_SAME = "the result of g: o (Less) was always the same in the {} model"
_NONE = "operand {} of g: y ({}) contributed no element to its result in the {} model"
_NUMBER = "the models differ in {}, but no output changed"
_UNSEEN = [
    (_IF.format("Neg", "Neg"), _IF.format("Neg", "Abs"), [_TAKEN.format("second")]),
    (_IF.format("Neg", "Exp"), _IF.format("Neg", "Abs"), [*map(_TAKEN.format, _BOTH)]),
    (_IF.format("Neg", "Exp"), _IF.format("Neg", "Exp"), []),
    (_STORED, _IF.format("Neg", "Abs"), [*map(_TAKEN.format, _BOTH)]),
    (_IF.format("Relu", "Neg"), _IF.format("Abs", "Neg"), []),  # what was not taken is the same
    (_LOOKED_UP.format(2, "Abs"), _LOOKED_UP.format(7, "Abs"),
     [*map(_ROWS.format, _BOTH), _NUMBER.format("constant as operand 1 of Gather at g: y (Gather)")]),
    (_LOOKED_UP.format(2, "Abs"), _LOOKED_UP.format(2, "Identity"), []),  # the same table, of which both read some
    (_PICKED.format(2, "Abs"), _PICKED.format(2, "Identity"), []),
    (_WHERE.format("Neg"), _WHERE.format("Exp"), [_NONE.format(3, "Where", side) for side in _BOTH]),
    (_CLIP.format(9), _CLIP.format(10),
     [*(_NONE.format(place, "Clip", side) for side in _BOTH for place in (2, 3)),
      _NUMBER.format("constant as operand 3 of Clip at g: y (Clip)")]),
    (_LESS.format(9), _LESS.format(8),
     [*map(_SAME.format, _BOTH), _NUMBER.format("constant as operand 2 of Less at g: o (Less)")]),
    (_ELU.format("1.0"), _ELU.format("2.0"), [_NUMBER.format("alpha of Elu at g: y (Elu)")]),
    (_ELU_TWICE.format("1.0", "2.0"), _ELU_TWICE.format("2.0", "2.0"), [_NUMBER.format("alpha of Elu at g: a (Elu)")]),
    (_ELU_TWICE.format("1.0", "1.0"), _ELU_ONCE, [_NUMBER.format(f"alpha of Elu at g: {name} (Elu)") for name in "ab"]),
    (_ELU_TWICE.format("1.0", "2.0"), _ELU_ONCE, []),  # which of the two is that one is not known
    (_ELU_ONCE, _ELU_TWICE.format("1.0", "2.0"), []),
]  # fmt: skip


def test_the_rows_of_a_table_that_were_not_read_are_counted() -> None:
    for rows, missing in (([0, 2], 1), ([1, 1], 2), ([0, 1, 2], 0)):
        texts = [_LOOKED_UP.format(2, op_type).replace("[2]", f"[{len(rows)}]") for op_type in ("Abs", "Identity")]
        models = [onnx.parser.parse_model(_HEAD + text) for text in texts]
        verdict = castsmith.verify(*models, engine="reference", inputs=[("mine", {"i": np.array(rows)})])
        told = f"{missing} of the 3 rows of g: y (Gather) in the {{}} model"
        unread = [text for text in verdict.not_reached if "rows" in text]
        assert unread == ([told.format(title) for title in _BOTH] if missing else [])


def test_what_the_inputs_did_not_reach() -> None:
    def compare(a: str, b: str, expected: list[str]) -> None:
        assert [text for text in _unsure(a, b) if not text.startswith("no input gave ")] == expected

    check_all(compare, _UNSEEN)


def test_graphs_that_an_engine_runs_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of operators such as BeamSearch: what they reach is not known."""
    models = [_MAPPED.format(op) for op in ("Abs", "Relu")]
    assert _unsure(*models) == []
    monkeypatch.setattr(unseen, "RUNS_GRAPHS", frozenset({"If", "Loop", "Scan"}))
    assert _unsure(*models) == [*map(_GRAPHS.format, _BOTH)]
    assert _unsure(models[0], models[0]) == []


def test_with_a_tolerance_only_branches_count() -> None:
    for a, b, expected in _UNSEEN:
        assert _unsure(a, b, rtol=0.1) == (expected if "If (" in a else []), (a, b)
