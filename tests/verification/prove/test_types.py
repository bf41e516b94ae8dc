"""Types of results, and of inputs that one type variable binds."""

from __future__ import annotations

from typing import Any

import pytest
from onnx_ir import DataType

from castsmith.verification.prove.types import bound_together, result_type
from tests.verification.prove.test_programs import BOOL, I8, I64, F, H


def graph(*outputs: int) -> tuple[Any, ...]:
    return "graph", 0, outputs


_TO_HALF = (("to", ("INT", "10")),)

_IF = (("else_branch", graph(5)), ("then_branch", graph(6)))

_LOOP = (("body", graph(4, 5, 6)),)

_SCAN = (("body", graph(5, 6)), ("num_scan_inputs", ("INT", "1")))


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "index", "types", "expected"),
    [
        (("Add", 14), (), (0, 1), 0, {0: F, 1: F}, F),
        (("Add", 14), (), (0, 1), 0, {0: F, 1: I8}, None),
        (("Add", 14), (), (0, 1), 0, {0: F}, None),
        (("Add", 14), (), (0, 1), 1, {0: F, 1: F}, None),
        (("Add", 13), (), (0, 1), 0, {0: I8, 1: I8}, None),
        (("Pow", 15), (), (0, 1), 0, {0: F, 1: F}, None),
        (("Shape", 15), (), (0,), 0, {0: F}, I64),
        (("Equal", 13), (), (0, 1), 0, {}, BOOL),
        (("Nothing", 13), (), (0, 1), 0, {0: F, 1: F}, None),
        (("Cast", 13), _TO_HALF, (0,), 0, {0: F}, H),
        (("Cast", 1), (("to", ("STRING", "b'FLOAT16'")),), (0,), 0, {0: F}, H),
        (("CastLike", 19), (), (0, 1), 0, {0: F, 1: I8}, I8),
        (("CastLike", 19), (), (0, None), 0, {0: F}, None),
        (("TopK", 11), (), (0, 1), 0, {0: F, 1: I64}, F),
        (("TopK", 11), (), (0, 1), 1, {0: F, 1: I64}, I64),
        (("Concat", 13), (), (0, 1, 2), 0, {0: I8, 1: I8, 2: I8}, I8),
        (("Concat", 13), (), (0, 1, 2), 0, {0: I8, 1: I8, 2: F}, None),
        (("Where", 16), (), (0, 1, 2), 0, {0: BOOL, 1: I8, 2: I8}, I8),
        (("If", 16), _IF, (0,), 0, {5: F, 6: F}, F),
        (("If", 16), _IF, (0,), 0, {5: F, 6: I8}, None),
        (("Loop", 16), _LOOP, (0, None, 2), 0, {2: F, 4: BOOL, 5: F, 6: I8}, F),
        (("Loop", 16), _LOOP, (0, None, 2), 1, {2: F, 4: BOOL, 5: F, 6: I8}, I8),
        (("Loop", 16), _LOOP, (0, None, 2), 0, {2: I8, 5: F}, None),
        (("Loop", 16), _LOOP, (0, None, 2), 2, {2: F, 5: F, 6: F}, None),
        (("Scan", 16), _SCAN, (2, 3), 0, {2: F, 3: I8, 5: F, 6: I8}, F),
        (("Scan", 16), _SCAN, (2, 3), 1, {2: F, 3: F, 5: F, 6: I8}, I8),
        (("Scan", 8), _SCAN, (2, 3), 0, {2: F, 3: I8, 5: F, 6: I8}, None),
    ],
)
def test_types_of_results(
    op: tuple[str, int], attributes: Any, inputs: Any, index: int, types: dict[int, DataType], expected: DataType | None
) -> None:
    assert result_type(("", *op), attributes, inputs, index, types) == expected


def test_inputs_that_one_type_variable_binds() -> None:
    for op_type, version, count, expected in (
        ("Add", 14, 2, [[0, 1]]), ("Where", 16, 3, [[1, 2]]), ("Concat", 13, 3, [[0, 1, 2]]), ("Gather", 13, 2, []),
        ("Loop", 16, 4, []), ("Nothing", 13, 2, []), ("Clip", 13, 3, [[0, 1, 2]]), ("Clip", 13, 1, []),
    ):  # fmt: skip
        assert bound_together(("", op_type, version), count) == expected, op_type
