"""Undefined elements through everything that chooses, repeats and collects: what may differ is marked.

Each body gets a vector u, of which two elements are undefined, at one place. The body alone is run with other values at
these elements; every element of a result that differs must be among those that are marked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.control_flow import (
    _OF_SEQUENCES as OF_SEQUENCES,  # pyright: ignore[reportPrivateUsage]
)
from castsmith.verification.evaluate.conversions import (
    Content,
    Tensor,
    _by_trial,  # pyright: ignore[reportPrivateUsage]
    convert,
    spread,
)
from castsmith.verification.evaluate.engines import Engine, EngineError
from castsmith.verification.evaluate.evaluator import Evaluator
from tests.sampling import check_all

pytestmark = pytest.mark.usefixtures("engines_here")

HEAD = '<ir_version: 10, opset_import: ["" : 21, "f" : 1]>'
BAD = np.array([1.0, 300.0, 2.0, np.nan], np.float32)
"""Its second and its last element have no int8."""
FEEDS: dict[str, Any] = {
    "n": np.arange(4, dtype=np.int8),
    "c": np.array([True, False, False, True]),
    "three": np.array(3, np.int64),
    "true": np.array(True),
    "nine": np.array(9, np.int8),
    "two": np.array(2, np.int64),
}
_INPUTS = "int8[4] n, bool[4] c, int64 three, bool true, int8 nine, int64 two"
_SCALAR = "last = Constant <value_int = 3> () e = Gather (u, last)"
_BOOL, _LONG = f"{_SCALAR} b = Cast <to = 9> (e)", f"{_SCALAR} l = Cast <to = 7> (e)"
_IF = "y = If ({}) <then_branch = t () => (int8[4] p) {{ p = {} }}, else_branch = s () => (int8[4] q) {{ q = {} }}>"
_LOOP = "y, z = Loop ({}) <body = r (int64 i, bool k, int8[4] a) => (bool ko, int8[4] v, int8 w) {{ {} }}>"
_BODY = "ko = Identity (k) v = Add (a, n) w = Gather (n, i)"
_SCAN = "y, z = Scan <num_scan_inputs = 1 {}, body = r (int8[4] a, int8 o) => (int8[4] v, int8[4] w) {{ {} }}> ({})"
_PARTS = "parts = SplitToSequence <keepdims = 0> (n) open = SplitToSequence <keepdims = 0> (u)"

# By operator: bodies with u at each place, in which it may be undefined.
BODIES: dict[str, list[str]] = {
    "Where": ["y = Where (c, u, n)", "y = Where (c, n, u)", "b = Cast <to = 9> (u) m = Neg (n) y = Where (b, n, m)"],
    "If": [
        f"{_BOOL} {_IF.format('b', 'Identity (n)', 'Neg (n)')}",
        _IF.format("true", "Add (u, n)", "Neg (n)"),
        _IF.format("true", "Neg (n)", "Add (u, n)"),
        f"{_BOOL} w = Where (b, n, u) {_IF.format('true', 'Add (w, n)', 'Neg (w)')}",
    ],
    "Loop": [
        f"{_LONG} zero = Constant <value_int = 0> () most = Min (l, two)"
        f" count = Max (most, zero) {_LOOP.format('count, , n', _BODY)}",
        f"{_BOOL} {_LOOP.format('three, b, n', _BODY)}",
        _LOOP.format("three, , u", _BODY),
        _LOOP.format("three, , n", _BODY.replace("(a, n)", "(a, u)")),
        _LOOP.format("three, , n", _BODY.replace("(n, i)", "(u, i)")),
        _LOOP.format("three, , n", _BODY.replace("ko = Identity (k)", "j = Gather (u, i) ko = Cast <to = 9> (j)")),
        _LOOP.format("three, , u", "ko = Identity (k) v = Where (c, a, n) w = Gather (v, i)"),
    ],
    "Scan": [
        _SCAN.format("", "v = Add (a, o) w = Identity (v)", "u, n"),
        _SCAN.format("", "v = Add (a, n) w = Add (n, o)", "n, u"),
        _SCAN.format("", "v = Add (a, o) w = Identity (v)", "n, u"),
        _SCAN.format("", "v = Add (a, u) w = Identity (v)", "n, n"),
        _SCAN.format(", scan_input_directions = [1]", "v = Identity (a) w = Add (n, o)", "n, u"),
        _SCAN.format(", scan_output_directions = [1]", "v = Identity (a) w = Add (n, o)", "n, u"),
        _SCAN.format(", scan_output_axes = [1]", "v = Identity (a) w = Add (n, o)", "n, u"),
    ],
    "SequenceMap": [
        f"{_PARTS} m = SequenceMap (open) <body = r (int8 o) => (int8 v) {{ v = Neg (o) }}>"
        " y = ConcatFromSequence <axis = 0, new_axis = 1> (m)",
        f"{_PARTS} m = SequenceMap (parts, u) <body = r (int8 o, int8[4] a) => (int8[4] v) {{ v = Add (o, a) }}>"
        " y = ConcatFromSequence <axis = 0, new_axis = 1> (m)",
    ],
    "SequenceEmpty": ["s = SequenceEmpty <dtype = 3> () m = SequenceInsert (s, u) i = Constant <value_int = 0> ()"
                      " y = SequenceAt (m, i)"],
    "SequenceConstruct": ["s = SequenceConstruct (n, u) y = ConcatFromSequence <axis = 0> (s)"],
    "SequenceAt": [f"{_PARTS} y = SequenceAt (open, three)", f"{_LONG} {_PARTS} y = SequenceAt (parts, l)"],
    "SequenceInsert": [
        f"{_PARTS} s = SequenceInsert (open, nine, three) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
        f"{_SCALAR} {_PARTS} s = SequenceInsert (parts, e, three) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
        f"{_LONG} {_PARTS} s = SequenceInsert (parts, nine, l) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
    ],
    "SequenceErase": [
        f"{_PARTS} s = SequenceErase (open, three) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
        f"{_LONG} {_PARTS} s = SequenceErase (parts, l) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
    ],
    "SequenceLength": [f"{_LONG} w = Max (l, two) s = SplitToSequence (n, w) y = SequenceLength (s)"],
    "SplitToSequence": [
        f"{_PARTS} y = ConcatFromSequence <axis = 0, new_axis = 1> (open)",
        f"{_LONG} w = Max (l, two) s = SplitToSequence (n, w) i = Constant <value_int = 0> () y = SequenceAt (s, i)",
    ],
    "ConcatFromSequence": ["s = SequenceConstruct (u, n) y = ConcatFromSequence <axis = 0, new_axis = 1> (s)"],
    "Optional": ["o = Optional (u) y = OptionalGetElement (o)"],
    "OptionalGetElement": ["o = Optional (n) m = OptionalGetElement (o) y = Add (m, u)"],
    "OptionalHasElement": ["o = Optional (u) y = OptionalHasElement (o)"],
    "a function": ["y = f.h (u, n)", "y = f.h (n, u)"],
}  # fmt: skip
FUNCTION = '<domain: "f", opset_import: ["" : 21]> h (p, r) => (s) { t = Neg (p) s = Concat <axis = 0> (t, r) }'


def outputs_of(body: str, given: str, start: str, feeds: dict[str, Any]) -> list[Content]:
    results = "int8[A] y, int8[B] z" if "y, z" in body else "int8[A] y"
    text = f"{HEAD} g ({given}, {_INPUTS}) => ({results}) {{ {start} {body} }} {FUNCTION}"
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    return list(Evaluator(model, PromotionRules(), Engine("reference")).run({**FEEDS, **feeds}).values())


def require_marks(body: str) -> None:
    try:
        found = outputs_of(body, "float[4] x", "u = Cast <to = 3> (x)", {"x": BAD})
    except EngineError as error:
        if not error.open:
            raise
        return
    runs = list[list[Content]]()
    for value in (0, 1, 2, 3, -1, 100):
        u = np.array([1, value, 2, value], np.int8)
        try:
            runs.append(outputs_of(body, "int8[4] u", "", {"u": u}))
        except EngineError as error:  # the number is a place that the sequence does not have
            if "out of range" not in str(error):
                raise
    assert len(runs) > 1
    for index, tensor in enumerate(found):
        assert isinstance(tensor, Tensor)
        others = [content.array for run in runs if isinstance(content := run[index], Tensor)]
        marks = np.zeros(tensor.array.shape, np.bool_) if tensor.undefined is None else tensor.undefined
        if {other.shape for other in others} != {tensor.array.shape}:
            assert marks.all()
            continue
        varied = np.any([other != others[0] for other in others], axis=0)
        assert not np.any(varied & ~marks), (varied, marks)


def test_what_may_differ_is_marked() -> None:
    check_all(require_marks, (body for bodies in BODIES.values() for body in bodies))


def test_each_operator_is_among_them() -> None:
    assert {*OF_SEQUENCES, "Where", "If", "Loop", "Scan", "SequenceMap"} <= {*BODIES}


def test_what_is_no_conversion() -> None:
    """An operator of another domain, one without an operand, and BitCast before it was defined."""
    x = np.ones(1, np.float32)
    for domain, op_type, operands in (("f", "Cast", [x]), ("", "Cast", []), ("", "Cast", [None]), ("", "BitCast", [x])):
        node = onnx_ir.node(op_type, [None] * len(operands), {"to": 6}, domain=domain)
        assert convert(node, operands, {"": 21, "f": 1}) is None
    foreign = onnx_ir.node("DequantizeLinear", [None] * 2, domain="com.microsoft")
    assert convert(foreign, [np.ones(1, np.int8), np.array(2, np.float32)], {"": 21, "com.microsoft": 1}) is None
    moved = convert(onnx_ir.node("Cast", [None], {"to": 6}), [x], {"": 21})
    assert moved is not None
    assert (moved.array.dtype, moved.array.tolist()) == (np.int32, [1])


def test_marks_spread_by_element_in_the_standard_alone() -> None:
    """Of an operator of another domain, trials tell; where all is defined, nothing is tried."""
    ran = list[int]()

    def run(_operands: Any) -> list[Any]:
        ran.append(1)
        return [np.zeros(2, np.float32)]

    x, marked = np.zeros(2, np.float32), np.array([True, False])
    for domain, mask, expected, trials in (
        ("", marked, [[True, False]], 0),
        ("f", marked, [None], 3),
        ("f", None, [None], 0),
        ("", None, [None], 0),
    ):
        ran.clear()
        node = onnx_ir.node("Neg", [None], domain=domain)
        masks = spread(node, [Tensor(x, mask)], [x], run)
        assert ([None if each is None else each.tolist() for each in masks], len(ran)) == (expected, trials)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float32", ["0.0", "1.0", "nan"]), ("int8", ["0", "1", "2"]), ("object", ["0.0", "1.0", "nan"])],
)
def test_what_stands_for_undefined_elements(dtype: str, expected: list[str]) -> None:
    """NaN, zero and one, in the type of the operand: a text is a text, and an integer has no NaN."""
    x = np.array(["7", "7"], object) if dtype == "object" else np.full(2, 7, dtype)
    fed = list[Any]()

    def run(operands: Any) -> list[Any]:
        fed.append(operands[0].tolist())
        return [x]

    _by_trial([x, None], [np.array([False, True]), None], [x], run)
    assert {type(b) for _, b in fed} == {type(x.tolist()[0])}
    assert sorted(str(b) for _, b in fed) == expected
    assert {str(float(a)) for a, _ in fed} == {"7.0"}
