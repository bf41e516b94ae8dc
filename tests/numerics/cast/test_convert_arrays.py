"""Cast on arrays as they come: shapes, layouts, byte orders, types by opset, settings, and no warnings."""

from __future__ import annotations

import itertools
import warnings

import ml_dtypes
import numpy as np
import onnx.defs
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from onnx_ir import DataType

from castsmith.numerics.cast.convert import CHUNK, cast
from castsmith.numerics.cast.settings import FIRST_OPSET, NEWEST_OPSET
from castsmith.numerics.critical import critical_values
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.types import NUMERIC_TYPES, type_name
from tests.numerics import oracle
from tests.sampling import check_all

OPSETS = (1, 6, 9, 13, 19, 21, 23, 24, 25, 28)


def bits(array: np.ndarray) -> list[int]:
    return array.view(f"u{array.dtype.itemsize}").reshape(-1).tolist()


@settings(deadline=None)
@given(
    hnp.arrays(np.dtype(np.float32), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)),
    st.sampled_from(oracle.TYPES),
    st.data(),
)
def test_the_result_depends_on_each_element_alone(array: np.ndarray, target: str, data: st.DataObject) -> None:
    got = cast(array, target)
    assert got.shape == array.shape
    assert bits(got) == [bits(cast(element, target))[0] for element in array.reshape(-1)]
    turned = array.transpose(data.draw(st.permutations(range(array.ndim))))[..., ::-1] if array.ndim else array
    assert bits(cast(turned, target)) == bits(cast(turned.copy(), target))


def require_same_in_either_byte_order(kind: str, target: str) -> None:
    array = np.random.default_rng(7).integers(0, 256, 256, np.uint8).view(kind)
    assert bits(cast(array.astype(array.dtype.newbyteorder("S")), target)) == bits(cast(array, target))


def test_byte_order_does_not_matter() -> None:
    check_all(require_same_in_either_byte_order, itertools.product(("f2", "f4", "f8", "i2", "i8", "u4"), oracle.TYPES))


def require_same_in_odd_layouts(source: str, target: str) -> None:
    array = oracle.array_of(source, list(oracle.all_codes(source))[:64])
    grid = np.concatenate([array] * 6)[:12].reshape(3, 4)
    assert bits(cast(grid[::-1, ::2].T, target)) == bits(cast(grid[::-1, ::2].T.copy(), target))
    assert cast(grid[:, :0], target).shape == (3, 0)
    assert cast(grid[0, 0], target).shape == ()


def test_narrow_sources_in_odd_layouts() -> None:
    check_all(require_same_in_odd_layouts, itertools.product(oracle.NARROW_TYPES, oracle.TYPES))


def test_chunks_join_without_a_seam() -> None:
    array = np.arange(2 * CHUNK + 5, dtype=np.float32)
    want = np.concatenate([cast(part, "float8e5m2") for part in np.array_split(array, 7)])
    assert bits(cast(array, "float8e5m2")) == bits(want)
    shifted = np.frombuffer(b"\0" + array.tobytes(), np.float32, offset=1)
    assert bits(cast(shifted, "float8e5m2")) == bits(want)
    assert bits(cast(np.broadcast_to(np.float32(3), (CHUNK + 1,)), "int8")) == [3] * (CHUNK + 1)


def test_the_input_is_left_alone() -> None:
    array = np.array([1.5, np.nan, -0.0])
    array.flags.writeable = False
    for target in oracle.TYPES:
        cast(array, target)
    assert array.tobytes() == np.array([1.5, np.nan, -0.0]).tobytes()


SOURCES = ("float16", "float", "double", "int64", "uint64", "bfloat16", "float8e5m2")


def require_no_warning(source: str, target: str) -> None:
    width = 8 * oracle.unsigned(source).itemsize
    codes = [code >> max(64 - width, 0) for code in range(0, 2**64, 2**56 - 1)]
    signalling = np.array([0x7FF0000000000001, 0xFFF0000000000001], np.uint64).view(np.float64)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        cast(oracle.array_of(source, codes), target)
        cast(signalling, target)


def test_no_warning_whatever_the_value() -> None:
    check_all(require_no_warning, itertools.product(SOURCES, [*oracle.TYPES, "string"]))


def test_bits_above_the_width_of_a_sub_byte_type_do_not_count() -> None:
    for name, clean in (("int4", 0x0F), ("uint2", 0x03), ("float4e2m1", 0x0F), ("float6e3m2", 0x3F)):
        dirty = oracle.array_of(name, [0xF5])
        assert bits(cast(dirty, "float")) == bits(cast(oracle.array_of(name, [0xF5 & clean]), "float"))


def test_array_likes_and_names_of_types() -> None:
    assert cast([[1, 2], [3, 4]], "f16").dtype == np.float16
    assert cast(3, DataType.FLOAT8E5M2).dtype == ml_dtypes.float8_e5m2
    assert cast(True, "i8").tolist() == 1
    assert cast(np.arange(3, dtype=np.longlong), "f32").tolist() == [0, 1, 2]


@pytest.mark.parametrize("opset", range(1, NEWEST_OPSET + 1))
def test_types_by_opset_are_those_of_the_schema(opset: int) -> None:
    schema = onnx.defs.get_schema("Cast", opset)
    ours = {f"tensor({type_name(dtype)})" for dtype, first in FIRST_OPSET.items() if first <= opset}
    for constraint in schema.type_constraints:
        assert ours == set(constraint.allowed_type_strs)


def test_every_version_of_the_operator_is_known() -> None:
    every = onnx.defs.get_all_schemas_with_history()
    assert {s.since_version for s in every if s.name == "Cast" and s.domain == ""} == set(OPSETS)


@pytest.mark.parametrize("dtype", [dtype for dtype, first in FIRST_OPSET.items() if first > 1])
def test_a_type_too_new_for_the_opset_is_refused_with_the_first_that_has_it(dtype: DataType) -> None:
    first = FIRST_OPSET[dtype]
    expected = f"Cast does not support {type_name(dtype)} at opset {first - 1}; it needs opset {first} or newer"
    with pytest.raises(ElementTypeError, match=expected):
        cast(np.float32(1), dtype, opset=first - 1)
    with pytest.raises(ElementTypeError, match=expected):
        cast(cast(np.float32(1), dtype), "float", opset=first - 1)
    cast(np.float32(1), dtype, opset=first)


def test_what_has_no_element_type_is_refused_by_name() -> None:
    with pytest.raises(ElementTypeError, match="complex64"):
        cast(np.complex64(1), "float")
    with pytest.raises(ElementTypeError, match="complex128"):
        cast(1.0, "complex128")
    with pytest.raises(ElementTypeError, match="timedelta64"):
        cast(np.zeros(2, "m8[s]"), "float")
    with pytest.raises(ElementTypeError, match="int"):
        cast([2**70], "float")
    with pytest.raises(ElementTypeError, match="float7"):
        cast(1.0, "float7")
    with pytest.raises(CastError, match="sideways"):
        cast(1.0, "float8e8m0", round_mode="sideways")
    with pytest.raises(CastError, match="29"):
        cast(1.0, "float", opset=29)
    with pytest.raises(CastError, match="invalid opset 0"):
        cast(1.0, "float", opset=0)


def test_the_type_may_be_a_dtype_or_a_scalar_class():
    assert cast([1.5], np.dtype("float16")).dtype == np.float16
    assert cast([1.5], np.float16).dtype == np.float16
    with pytest.raises(ElementTypeError, match="write float32 or float64"):
        cast([1.5], float)  # pyright: ignore[reportArgumentType]


_FEW, _MANY = 500, 5000


def require_same_in_many(source: DataType, target: DataType) -> None:
    """Large arrays are converted by other steps than small ones, if none of their numbers is out of the ordinary."""
    numbers = critical_values(source, target)
    small = np.sort(numbers.astype(np.float64)).astype(source.numpy())[:: max(1, len(numbers) // _FEW)]
    ends = [np.concatenate([np.arange(2).astype(source.numpy()), numbers[at : at + 1]]) for at in (0, -1)]
    for few in (small[:_FEW], *ends):
        assert bits(cast(np.resize(few, _MANY), target)[: len(few)]) == bits(cast(few, target))


def test_a_large_array_is_converted_like_a_small_one() -> None:
    with np.errstate(all="ignore"):
        check_all(require_same_in_many, itertools.product(NUMERIC_TYPES, repeat=2))
