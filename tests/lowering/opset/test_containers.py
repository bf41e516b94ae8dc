"""Sequences and optional values, declared and not, at opsets whose operators have only tensors."""

from __future__ import annotations

import pytest

from tests.lowering.float8.test_lower import model_of
from tests.lowering.opset.test_moving import moved

SEQUENCE = "optional(seq(float[3])) v"
LOOP = """agraph (float[3] x, int64 n, bool c, seq(float[3]) s) => (float[3] y) {
    r = Loop (n, c, s) <body = b (int64 i, bool t, seq(float[3]) q) => (bool u, seq(float[3]) w)
        { u = Identity (t) w = SequenceInsert (q, x) }>
    f = Identity (r) j = Constant <value_int = 0> () y = SequenceAt (f, j) }"""
BRANCHES = """agraph (bool c, float[3] x) => (float[3] y) {
    r = If (c) <then_branch = p () => (t) { t = %s (x) }, else_branch = q () => (e) { e = %s (x) }>
    s = Identity (r) %s }"""
AT = "j = Constant <value_int = 0> () y = SequenceAt (s, j)"


@pytest.mark.parametrize(("body", "now", "to", "says"), [
    ("agraph (optional(seq(float[3])) v) => (optional(seq(float[3])) w) { w = Identity (v) }", 16, 15,
     "Identity of opset 14 does not support optional(seq(tensor(float))) as input 0"),
    ("agraph (seq(float[3]) v) => (seq(float[3]) w) { w = Identity (v) }", 16, 14, ""),
    ("agraph (seq(float[3]) v) => (seq(float[3]) w) { w = Identity (v) }", 14, 13,
     "Identity of opset 13 does not support seq(tensor(float)) as input 0"),
    ("""agraph (float[3] x) => (float[3] y) { s = SequenceConstruct (x) t = Identity (s) u = Identity (t)
        j = Constant <value_int = 0> () y = SequenceAt (u, j) }""", 14, 13,
     "Identity of opset 13 does not support seq(tensor(float)) as input 0"),
    ("agraph (float[3] x) => (float[3] y) { s = Neg (x) t = Identity (s) y = Identity (t) }", 16, 13, ""),
    (BRANCHES % ("Neg", "Abs", "y = Identity (s)"), 16, 13, ""),
    (BRANCHES % ("SequenceConstruct", "SequenceConstruct", AT), 16, 14, ""),
    (BRANCHES % ("SequenceConstruct", "SequenceConstruct", AT), 16, 13,
     "Identity of opset 13 does not support seq(tensor(float)) as input 0"),
    (BRANCHES % ("Optional", "Optional", "y = OptionalGetElement (s)"), 16, 15,
     "If of opset 13 does not support optional(tensor(float)) as output 0"),
    (LOOP, 16, 14, ""), (LOOP, 16, 13, "Identity of opset 13 does not support seq(tensor(float)) as input 0"),
])  # fmt: skip
def test_what_an_older_opset_takes_only_as_tensors(body: str, now: int, to: int, says: str) -> None:
    records = moved(model_of(body, now), to).records
    assert says in [refusal.reason for refusal in records.refusals] if says else not records.refusals, records.refusals
