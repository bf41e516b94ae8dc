"""BitCast: every pair of types of one width, the ONNX backend node tests, and what is refused."""

from __future__ import annotations

import numpy as np
import onnx.defs
import pytest
from onnx_ir import DataType

from castsmith.numerics.cast.convert import FIRST_OPSET, bit_cast
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.types import ELEMENT_TYPES, parse_type, type_name
from tests.graphs.backend import array_of_case, node_cases
from tests.numerics import oracle
from tests.sampling import check_all

CASES = node_cases("test_bitcast_")
SCHEMA = onnx.defs.get_schema("BitCast", FIRST_OPSET)
TAKEN = sorted(text.removeprefix("tensor(").removesuffix(")") for text in SCHEMA.type_constraints[0].allowed_type_strs)
BITS = {name: 8 if name == "bool" else ELEMENT_TYPES[parse_type(name)].bits for name in TAKEN}
SAME = [(a, b) for a in TAKEN for b in TAKEN if BITS[a] == BITS[b]]


def codes_of(name: str) -> np.ndarray:
    """Every code of a narrow type (of bool: 0 and 1), and codes of wide ones, all bytes different."""
    if name in oracle.NARROW_TYPES:
        return np.array(list(oracle.all_codes(name)), oracle.unsigned(name))
    width = parse_type(name).numpy().itemsize
    return np.random.default_rng(0).integers(0, 256, 64 * width, np.uint8).view(f"V{width}")


def require_same_bits(source: str, target: str) -> None:
    codes = codes_of(source)
    array = codes.view(parse_type(source).numpy())
    got = bit_cast(array, target)
    assert got.dtype == parse_type(target).numpy()
    assert got.tobytes() == codes.tobytes()
    assert not np.shares_memory(got, array)
    assert bit_cast(got, source).tobytes() == codes.tobytes()


def test_the_bits_stay() -> None:
    check_all(require_same_bits, SAME)


def require_another_width_refused(source: str, target: str) -> None:
    with pytest.raises(ElementTypeError, match=f"{source} has {BITS[source]} bits and {target} has {BITS[target]}"):
        bit_cast(np.zeros(1, parse_type(source).numpy()), target)


def test_another_width_is_refused_by_name() -> None:
    check_all(require_another_width_refused, [(a, b) for a in TAKEN for b in TAKEN if BITS[a] != BITS[b]])


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_types_are_those_of_the_schema(dtype: DataType) -> None:
    name = type_name(dtype)
    array = np.array(["x"], object) if name == "string" else np.zeros(1, dtype.numpy())
    if name in TAKEN:
        bit_cast(array, dtype)
        return
    with pytest.raises(ElementTypeError, match=f"BitCast does not support {name}"):
        bit_cast(array, "uint8")
    with pytest.raises(ElementTypeError, match=f"BitCast does not support {name}"):
        bit_cast(np.zeros(1, np.uint8), dtype)


def test_shapes_layouts_and_dirty_bits() -> None:
    grid = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert bit_cast(grid[::-1, ::2].T, "int32").tolist() == grid[::-1, ::2].T.copy().view(np.int32).tolist()
    assert bit_cast(grid.astype(">f4"), "int32").tolist() == grid.view(np.int32).tolist()
    assert bit_cast(np.float32(1), "uint32").shape == ()
    assert bit_cast(np.zeros((2, 0)), "int64").shape == (2, 0)
    assert bit_cast(oracle.array_of("int4", [0xF5]), "uint4").view(np.uint8).tolist() == [5]


def test_opsets() -> None:
    for opset in (25, 29):
        with pytest.raises(CastError, match=f"unsupported opset {opset} for BitCast; supported are 26 to 28"):
            bit_cast(np.float32(1), "int32", opset=opset)


@pytest.mark.parametrize("name", CASES)
def test_backend_node_case(name: str) -> None:
    case = CASES[name]
    for inputs, outputs in case.data_sets or ():
        given, expected = array_of_case(inputs[0]), array_of_case(outputs[0])
        assert case.model is not None
        got = bit_cast(given, DataType(case.model.graph.output[0].type.tensor_type.elem_type))
        assert (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


def test_there_are_as_many_cases_as_when_this_was_written() -> None:
    assert len(CASES) == 10
