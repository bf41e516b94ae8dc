"""Numbers of one class stand for each other, where they may."""

from __future__ import annotations

import numpy as np
from onnx_ir import DataType

from castsmith.verification.prove.programs import SOURCE, constant, step
from castsmith.verification.prove.tables import digest


def test_numbers_of_one_class_are_not_taken_for_the_same() -> None:
    """All but one of the lower bits dropped is the number itself for each number that is tried."""
    mask, one = (constant(np.array(n, np.uint32), DataType(12)) for n in (0xFFFFF000, 1))
    low = constant(np.array(0xFFF, np.uint32), DataType(12))
    bits = step("BitCast", (12,), [SOURCE])
    sticky = step("Min", (), [step("BitwiseAnd", (), [bits, low]), one])
    program = step("BitCast", (1,), [step("BitwiseOr", (), [step("BitwiseAnd", (), [bits, mask]), sticky])])
    known = digest(program, DataType(1), strict=True)
    assert known is not None
    assert known[0] != "same"
