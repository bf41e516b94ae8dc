"""The rows of differences: each shows in the runtime itself, and no departure is without a row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from onnx.reference.ops.op_cast import cast_to

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import CastError
from castsmith.numerics.runtimes.dispatch import RUNTIMES, cast_as
from castsmith.numerics.types import parse_type, type_name
from tests.numerics import oracle
from tests.numerics.runtimes.onnxruntime_node import run_node
from tests.numerics.runtimes.runtime_differences import DIFFERENCES, Difference
from tests.numerics.runtimes.test_dispatch import VERSION, attributes, given, same
from tests.numerics.settings import settings_of

LACKING = {"float4e2m1", "float6e2m3", "float6e3m2"}
"""Types that ONNX Runtime has no Cast for."""
OWN = [row for row in DIFFERENCES if VERSION or row.runtime != "onnxruntime"]


def shown(array: np.ndarray) -> str:
    element: Any = array.reshape(-1)[0]
    if array.dtype == object or array.dtype.kind == "U":
        return str(element)
    name = np.dtype(array.dtype).name
    if name == "bool" or "int" in name:
        return str(bool(element) if name == "bool" else int(element))
    return str(float(element))


def computed(row: Difference, array: np.ndarray, to: str) -> np.ndarray:
    settings = oracle.Settings(row.saturate is not False, row.round_modes[0], row.opset)
    if row.runtime == "onnxruntime":
        return run_node("Cast", [array], to, row.opset, to=parse_type(to).value, **attributes(to, settings))
    number: Any = parse_type(to).value
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return cast_to(array, number, settings.saturate, settings.round_mode)


@pytest.mark.parametrize("row", OWN, ids=lambda row: f"{row.runtime}-{row.what}")
def test_the_value_of_each_row(row: Difference) -> None:
    source, to = type_name(row.sources[0]), type_name(row.targets[0])
    array = np.array([row.value], object) if source == "string" else cast([float(row.value)], source)
    settings: dict[str, Any] = {
        "saturate": row.saturate is not False,
        "round_mode": row.round_modes[0],
        "opset": row.opset,
    }
    assert shown(cast(array, to, **settings)) == row.schema
    assert shown(cast_as(array, to, row.runtime, **settings)) == row.result
    assert shown(computed(row, array, to)) == row.result


def explained(runtime: str, source: str, target: str, settings: oracle.Settings) -> bool:
    return any(
        row.runtime == runtime
        and parse_type(source) in row.sources
        and parse_type(target) in row.targets
        and row.saturate in (None, settings.saturate)
        and settings.round_mode in row.round_modes
        and (row.opset == 25 or settings.opset < 24)
        for row in DIFFERENCES
    )


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("source", oracle.TYPES)
def test_no_departure_is_without_a_row(source: str, runtime: str) -> None:
    """Over every code of narrow types and the boundaries of wide ones; NaNs of all bits are one."""
    for target in oracle.TYPES:
        array = given(source, target)
        for settings in settings_of(target) if source != target else []:
            if settings.opset < 24 and ("int2" in source or "float6" in source or "float8e8m0" in source):
                continue
            keywords: dict[str, Any] = {
                "saturate": settings.saturate,
                "round_mode": settings.round_mode,
                "opset": settings.opset,
            }
            try:
                theirs = cast_as(array, target, runtime, **keywords)
            except CastError:
                # The reference evaluator fails on some pairs of small types, other ones in each of its versions.
                assert runtime == "reference" or not LACKING.isdisjoint((source, target))
                continue
            assert runtime == "reference" or LACKING.isdisjoint((source, target))
            if not same(theirs, cast(array, target, **keywords), target).all():
                assert explained(runtime, source, target, settings), (target, settings)
