"""`cast(..., compiled=True)` gives the bits of `cast`, for every pair of types that has a kernel."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from castsmith.numerics.cast import compiled, convert
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import Policy
from castsmith.numerics.errors import ArgumentTypeError, CastError
from castsmith.numerics.types import element_type, parse_type
from tests.numerics import oracle
from tests.numerics.cast import exhaustive
from tests.numerics.samples import samples
from tests.numerics.settings import settings_of
from tests.sampling import sampled

needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")


def has_kernel(source: str, target: str) -> bool:
    rows = element_type(parse_type(source)), element_type(parse_type(target))
    return source != target and compiled.kernel_name(*rows) is not None


@pytest.mark.parametrize(
    ("kernel", "pairs"),
    [
        ("narrow_exact", "float:float16 float:bfloat16 float:float8e5m2 int8:float8e4m3fn uint16:float16"),
        ("narrow_inexact", "double:float16 double:float8e4m3fnuz uint32:bfloat16"),
        ("narrow_int32", "int32:float16 int32:float8e5m2fnuz"),
        ("narrow_int64", "int64:bfloat16"),
        ("narrow_bfloat16", "bfloat16:float16 bfloat16:float8e4m3fn"),
        ("truncate", "float:int8 float:uint8 double:int8"),
        ("truncate_bfloat16", "bfloat16:uint8"),
        ("widen", "float16:float float16:double"),
        ("widen_bfloat16", "bfloat16:float bfloat16:double"),
        (None, "float:int16 float:int4 double:int64 float16:int8 int32:int8 float:float8e8m0 float:float4e2m1"
         " uint64:float16 float16:bfloat16 float:float6e2m3 double:float int8:float float8e5m2:float16 float16:int16"),
    ],
)  # fmt: skip
def test_the_kernels_of_pairs(kernel: str | None, pairs: str) -> None:
    """The pairs for which they are faster; for others there is none."""
    for pair in pairs.split():
        source, target = (element_type(parse_type(name)) for name in pair.split(":"))
        assert compiled.kernel_name(source, target) == kernel, pair
        assert kernel is not None or compiled.kernel_for(source, target, Policy()) is None


PAIRS = [(source, target) for source in oracle.TYPES for target in oracle.TYPES if has_kernel(source, target)]
BITS = range(0, 34, 3)
"""Bits that are flipped in numbers and ties of the target, for numbers at many distances from them."""


def arrays(source: str, target: str) -> list[np.ndarray]:
    """Every code of at most 16 bits; of a wider type codes about the numbers and ties of the target, and at random."""
    dtype = oracle.unsigned(source)
    if source in oracle.NARROW_TYPES:
        return [oracle.array_of(source, np.array(oracle.all_codes(source), dtype))]
    codes = np.array(samples(source, target), dtype)
    flips = np.array([1 << bit for bit in BITS if bit < 8 * codes.itemsize], dtype)
    anything = np.random.default_rng(5).integers(0, 2**64, 1 << 16, np.uint64).astype(dtype)
    return [oracle.array_of(source, each) for each in (codes, (codes[:, None] ^ flips).reshape(-1), anything)]


def both(array: np.ndarray, target: str, settings: oracle.Settings) -> tuple[np.ndarray, np.ndarray]:
    given: dict[str, Any] = {"saturate": settings.saturate, "round_mode": settings.round_mode, "opset": settings.opset}
    return cast(array, target, **given, compiled=True), cast(array, target, **given)


@needs_numba
@pytest.mark.parametrize(("source", "target"), sampled("pairs of compiled kernels", PAIRS, 15))
def test_the_bits_are_the_same(source: str, target: str) -> None:
    for array in arrays(source, target):
        for settings in settings_of(target):
            with np.errstate(all="raise"):
                got, want = both(array, target, settings)
            assert got.dtype == want.dtype
            wrong = np.flatnonzero(got.view(oracle.unsigned(target)) != want.view(oracle.unsigned(target)))
            assert not wrong.size, (settings, array[wrong[0]], got[wrong[0]], want[wrong[0]])


@needs_numba
@pytest.mark.parametrize("target", sorted({target for source, target in PAIRS if source == "float"}))
def test_a_part_of_every_float(target: str) -> None:
    for settings in settings_of(target):
        for first in (0, 0x3380_0000, 0x47FF_0000, 0x7F7F_0000, 0x8000_0000, 0xFF7F_0000):
            assert exhaustive.differences(target, settings, first, first + 2**17, compiled=True) == (0, None)


@needs_numba
@pytest.mark.parametrize(("source", "target"), [("float", "float8e4m3fn"), ("double", "int8"), ("float16", "double")])
def test_arrays_of_every_layout(source: str, target: str) -> None:
    array = cast(np.linspace(-300, 300, 3 * convert.CHUNK).reshape(3, -1), source)
    read_only = array.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + array.tobytes(), array.dtype, offset=1).reshape(array.shape)
    assert not unaligned.flags.aligned
    given = (
        array,
        read_only,
        unaligned,
        array[:, ::-3],
        array.T,
        array[:0],
        array[0, 0],
        array.astype(">" + array.dtype.str[1:]),
    )
    for each in given:
        got, want = both(each, target, oracle.Settings())
        assert (got.shape, got.dtype, got.tobytes()) == (want.shape, want.dtype, want.tobytes())


@needs_numba
def test_a_kernel_is_used_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    used = list[str]()

    def noted(source: Any, target: Any, policy: Policy) -> Any:
        used.append(f"{source.name} {target.name}")
        return kernel_for(source, target, policy)

    kernel_for = compiled.kernel_for
    monkeypatch.setattr(compiled, "kernel_for", noted)
    convert._cast_of.cache_clear()  # pyright: ignore[reportPrivateUsage]
    cast(np.ones(3, np.float32), "float16")
    assert used == []
    cast(np.ones(3, np.float32), "float16", compiled=True)
    assert used == ["float float16"]


@needs_numba
def test_without_a_folder_to_keep_kernels_in(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = sys.modules["numba"]
    jit = numba.njit

    def refuse(*given: Any, cache: bool = False, **others: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function 'widen': no locator available for file 'kernels.py'")
        return jit(*given, **others)

    monkeypatch.setattr(numba, "njit", refuse)
    bfloat16, float32 = (element_type(parse_type(name)) for name in ("bfloat16", "float"))
    compiled._compiled.cache_clear()  # pyright: ignore[reportPrivateUsage]
    kernel = compiled.kernel_for(bfloat16, float32, Policy())
    assert kernel is not None
    assert kernel(np.array([0xBFC0], np.uint16)).view(np.float32).tolist() == [-1.5]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ModuleNotFoundError("No module named 'numba'", name="numba"), "needs numba: pip install"),
        (
            ImportError("cannot import name 'njit'", name="numba"),
            "which cannot be imported (cannot import name 'njit'): pip",
        ),
        (ModuleNotFoundError("No module named 'llvmlite'", name="llvmlite"), "(No module named 'llvmlite'): pip"),
        (ImportError("Numba needs NumPy 2.5 or less"), "which cannot be imported (Numba needs NumPy 2.5 or less): pip"),
    ],
)
def test_numba_is_missing(error: ImportError, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(compiled, "import_module", fail)
    convert._cast_of.cache_clear()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(CastError) as raised:
        cast([1.5], "float16", compiled=True)
    assert text in str(raised.value)
    assert str(raised.value).endswith("pip install 'castsmith[compiled]'.")
    assert cast([1.5], "float16").tolist() == [1.5]


def test_compiled_is_true_or_false() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^compiled must be True or False, not a value of type str\.$"):
        cast([1.5], "float16", compiled="yes")  # pyright: ignore[reportArgumentType]
