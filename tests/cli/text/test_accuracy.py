"""The text of a measured error, word for word."""

from __future__ import annotations

import pytest

from castsmith.cli.text.accuracy import error_lines
from castsmith.lowering.results import Accuracy, OutputError

_SETS, _TWO = ("a",), ("a", "b")
_Y = OutputError("y", 0.125, 0.00123456, 0.99999951, None)
_Z = OutputError("z", 2.0, 0.5, 1.0, 0.75)
ERRORS: list[tuple[Accuracy, list[str]]] = [
    (Accuracy(), ["  error: not measured, since the result does not run"]),
    (Accuracy(notes=("why",)), ["  error: not measured, since the result does not run", "    why"]),
    (
        Accuracy(_SETS, (_Y,)),
        [
            "  error on 1 set of inputs, relative to the largest element:",
            "    output  relative  absolute  cosine    top-1",
            "    y       0.00123   0.125     1.000000",
        ],
    ),
    (
        Accuracy(_TWO, (_Z,), notes=("one", "two")),
        [
            "  error on 2 sets of inputs, relative to the largest element:",
            "    output  relative  absolute  cosine    top-1",
            "    z       0.5       2         1.000000  75.0%",
            "    one",
            "    two",
        ],
    ),
    (
        Accuracy(_SETS, leap=("n", 0.125), overflows=("p", "q", "r"), differing={"i": (1, 1), "j": (2, 4)}),
        [
            "  error on 1 set of inputs:",
            "    output i: 1 of 1 element differs",
            "    output j: 2 of 4 elements differ",
            "    the error leaps first at n: by 0.125",
            "    3 values became infinite or NaN: p, q, r",
        ],
    ),
    (
        Accuracy(_SETS, overflows=("p", "q", "r", "s")),
        ["  error on 1 set of inputs:", "    4 values became infinite or NaN: p, q, r, ..."],
    ),
]


@pytest.mark.parametrize(("error", "expected"), ERRORS, ids=range(len(ERRORS)))
def test_the_error_of_each_output_and_remarks(error: Accuracy, expected: list[str]) -> None:
    assert list(error_lines(error)) == expected
