"""Two constants: whether they have the same bits, and the size and place of their largest difference."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx_ir
import pytest

from castsmith.verification.diff.tensors import digest, tensor_difference

_NAN = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)


def _tensor(array: Any) -> onnx_ir.TensorProtocol:
    return onnx_ir.tensor(array)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (np.array([1, 2], np.float32), np.array([1, 2], np.float32), True),
        (np.array([1, 2], np.float32), np.array([[1, 2]], np.float32), False),
        (np.array([1, 2], np.int32), np.array([1, 2], np.uint32), False),
        (np.array([0.0], np.float32), np.array([-0.0], np.float32), False),
        (_NAN[:1], _NAN[1:], False),
        (np.array(["ab", "c"], object), np.array(["ab", "c"], object), True),
        (np.array(["ab", "c"], object), np.array(["a", "bc"], object), False),
        (np.array(["ab"], object), np.array([b"ab"], object), True),
    ],
)
def test_a_digest_is_of_type_shape_and_bits(a: Any, b: Any, same: bool) -> None:
    assert (digest(_tensor(a)) == digest(_tensor(b))) is same


def test_a_digest_does_not_tell_how_a_tensor_is_stored() -> None:
    packed = onnx.helper.make_tensor("t", onnx.TensorProto.INT4, [3], [1, -2, 3])
    numbers = onnx.helper.make_tensor("t", onnx.TensorProto.FLOAT, [2], [1.5, 2])
    raw = onnx.helper.make_tensor("t", onnx.TensorProto.FLOAT, [2], np.array([1.5, 2], "<f4").tobytes(), raw=True)
    assert digest(onnx_ir.from_proto(packed)) == digest(_tensor(np.array([1, -2, 3], ml_dtypes.int4)))
    assert digest(onnx_ir.from_proto(numbers)) == digest(onnx_ir.from_proto(raw))


def _floats(numbers: Any) -> Any:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize(
    ("a", "b", "texts"),
    [
        (_floats([1, 2, 3, 4]), _floats([1, 2.5, 3, 1]),
         ("float[4]", "float[4]", "2 of 4 elements differ, the largest difference 3.0 at [3]: 4.0 -> 1.0")),
        (_floats([[1, 2], [3, 4]]), _floats([[1, 2], [9, 4]]),
         ("float[2, 2]", "float[2, 2]", "1 of 4 elements differ, the largest difference 6.0 at [1, 0]: 3.0 -> 9.0")),
        (_floats([1, 2]), _floats([1, 2, 3]), ("float[2]", "float[3]", "")),
        (_floats([[1, 2]]), _floats([1, 3]), ("float[1, 2]", "float[2]", "")),
        (_floats([1]), _floats([2]),
         ("float[1] {1.0}", "float[1] {2.0}",
          "1 of 1 elements differ, the largest difference 1.0 at [0]: 1.0 -> 2.0")),
        (_floats(1), _floats(2),
         ("float[] {1.0}", "float[] {2.0}", "1 of 1 elements differ, the largest difference 1.0 at []: 1.0 -> 2.0")),
        (_floats([1, 0.5]), np.array([1, 0.5]), ("float[2]", "double[2]", "the values are the same")),
        (_floats([1]), np.array([1.0]), ("float[1]", "double[1]", "the values are the same")),
        (_floats([1, 2]), np.array([1, 5]),
         ("float[2]", "int64[2]", "1 of 2 elements differ, the largest difference 3.0 at [1]: 2.0 -> 5")),
        (_floats([1, 0.0]), _floats([1, -0.0]),
         ("float[2]", "float[2]", "1 of 2 elements differ in their bits but not in value, at [1]: 0.0 -> -0.0")),
        (_floats([1, 2]), _floats([np.nan, 9]),
         ("float[2]", "float[2]", "2 of 2 elements differ, the largest difference NaN on one side at [0]: 1.0 -> nan")),
        (_floats([np.nan, 2]), _floats([0, 9]),
         ("float[2]", "float[2]", "2 of 2 elements differ, the largest difference NaN on one side at [0]: nan -> 0.0")),
        (_floats([np.inf, 2]), _floats([0, 9]),
         ("float[2]", "float[2]", "2 of 2 elements differ, the largest difference inf at [0]: inf -> 0.0")),
        (np.array(["a", "b", "c"], object), np.array(["a", "x", "y"], object),
         ("string[3]", "string[3]", "2 of 3 elements differ, at [1]: b'b' -> b'x'")),
        (np.array(["a"], object), _floats([1]), ("string[1]", "float[1]", "")),
        (np.array([1 + 1j, 2]), np.array([1 + 1j, 2 + 2j]),
         ("complex128[2]", "complex128[2]",
          "1 of 2 elements differ, the largest difference 2.0 at [1]: (2+0j) -> (2+2j)")),
        (np.array([1 + 1j]), _floats([1]), ("complex128[1]", "float[1]", "")),
        (np.array(["x" * 40], object), np.array(["y" * 37], object),
         (f"string[1] {{b'{'x' * 38}...}}", f"string[1] {{b'{'y' * 37}'}}",
          f"1 of 1 elements differ, at [0]: b'{'x' * 38}... -> b'{'y' * 37}'")),
    ],
)  # fmt: skip
def test_the_difference_of_two_constants(a: Any, b: Any, texts: tuple[str, str, str]) -> None:
    found = tensor_difference(_tensor(np.asarray(a)), _tensor(np.asarray(b)))
    assert (found.before, found.after, found.detail) == texts
