"""Cast against exact rational arithmetic: every pair of numeric types, every code of each narrow source."""

from __future__ import annotations

import numpy as np
import onnx.defs
import pytest

from castsmith.numerics.cast import convert
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import ElementTypeError
from castsmith.numerics.types import element_type, parse_type
from tests.numerics import oracle
from tests.numerics.samples import samples
from tests.numerics.settings import settings_of
from tests.sampling import sampled

FIRST_OPSET = {"float8e8m0": 24, "int2": 25, "uint2": 25, "float6e2m3": 28, "float6e3m2": 28}


def check_codes(source: str, target: str, codes: list[int], numbers: list[oracle.Number]) -> None:
    """Every setting of the pair, bit for bit; a failure shows the first code that differs."""
    array = oracle.array_of(source, codes)
    for settings in settings_of(target):
        if settings.opset < max(FIRST_OPSET.get(source, 1), FIRST_OPSET.get(target, 1)):
            continue
        got = cast(array, target, saturate=settings.saturate, round_mode=settings.round_mode, opset=settings.opset)
        row = oracle.FLOATS.get(target) or oracle.INTS[target]
        assert got.dtype == row.dtype
        expected = np.array(oracle.cast_codes(source, target, numbers, settings), oracle.unsigned(target))
        differs = np.flatnonzero(got.view(oracle.unsigned(target)) != expected)
        if differs.size:
            at = differs[0]
            pytest.fail(
                f"{differs.size} of {len(codes)} differ under {settings}; code {codes[at]:#x} is {numbers[at]}: "
                f"got {got.view(expected.dtype)[at]:#x}, expected {expected[at]:#x}"
            )


def pairs(sources: tuple[str, ...]) -> list[tuple[str, str]]:
    """Pairs of types; a sample has each target."""
    every = [(source, target) for source in sources for target in oracle.TYPES if source != target]
    return sampled(
        f"pairs of types for Cast [{sources[0]} to {sources[-1]}]", every, len(every) // 16, cover=lambda pair: pair[1:]
    )


@pytest.mark.parametrize(("source", "target"), pairs(oracle.NARROW_TYPES))
def test_every_code(source: str, target: str) -> None:
    check_codes(source, target, list(oracle.all_codes(source)), list(oracle.all_numbers(source)))


@pytest.mark.parametrize(("source", "target"), pairs(oracle.WIDE_TYPES))
def test_boundaries_and_random_numbers(source: str, target: str) -> None:
    codes = samples(source, target)
    check_codes(source, target, codes, [oracle.decode(source, code) for code in codes])


def cast_at(opset: int, numbers: list[float], name: str) -> list[float] | str:
    """Return the numbers in the type, or the reason why Cast of that opset does not support it."""
    try:
        return cast(np.array(numbers, np.float32), name, opset=opset).astype(np.float32).tolist()
    except ElementTypeError as error:
        return str(error)


def test_each_opset_at_which_cast_changes() -> None:
    """A type is new, or infinity saturates: at the opset before it, and there."""
    every = [
        schema for schema in onnx.defs.get_all_schemas_with_history() if (schema.domain, schema.name) == ("", "Cast")
    ]
    schemas = {schema.since_version: schema for schema in every}
    for opset in range(1, max(schemas) + 1):
        allowed = schemas[max(version for version in schemas if version <= opset)].inputs[0].types
        for name in oracle.TYPES:
            found = cast_at(opset, [1.0], name)
            assert (found == [1.0]) == (f"tensor({name})" in allowed), (opset, name)
    for name, most in (("float8e4m3fnuz", 240.0), ("float8e5m2fnuz", 57344.0)):
        assert str(cast_at(23, [np.inf], name)) == "[nan]"
        assert cast_at(24, [np.inf], name) == [most]
        assert cast_at(24, [1e9], name) == cast_at(23, [1e9], name) == [most]


@pytest.mark.parametrize("name", oracle.TYPES)
def test_a_cast_to_the_same_type_changes_no_bit(name: str) -> None:
    codes = list(oracle.all_codes(name)) if name in oracle.NARROW_TYPES else samples(name, "float16")
    array = oracle.array_of(name, codes)
    got = cast(array, name)
    assert got.view(oracle.unsigned(name)).tolist() == codes
    assert not np.shares_memory(got, array)


def test_the_fastest_way_of_each_pair() -> None:
    """The bits are the same: by numpy itself, by a table of all codes of the source, or by the rule of the target."""
    ways = {
        "numpy": "int8:int32 int64:uint8 uint16:int16 float:double double:float int32:float uint64:double int8:double",
        "table": "bool:int8 int4:float16 float8e5m2:float uint8:float16 int8:int4 float16:float float16:int32"
        " float16:bfloat16 bfloat16:float16 bfloat16:float8e4m3fn int16:float16 uint16:float8e5m2 int16:float6e2m3",
        "rule": "float:int8 double:float16 float:float8e4m3fn int16:int4 bfloat16:float bfloat16:int8 int32:float16"
        " uint16:bool int64:bool bfloat16:double float:bool double:uint4",
    }
    for way, pairs in ways.items():
        for pair in pairs.split():
            source, target = (element_type(parse_type(name)) for name in pair.split(":"))
            own, tabled = convert._is_numpys_own(source, target), convert._is_tabled(source, target)  # pyright: ignore[reportPrivateUsage]
            assert ("numpy" if own else "table" if tabled else "rule") == way, pair
