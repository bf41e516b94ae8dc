"""The casts between pairs of types in an installed runtime are those that the file of its target describes."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from onnx_ir import DataType

from castsmith.conformance.judging import Outcome
from castsmith.numerics.types import NUMERIC_TYPES, type_name
from castsmith.targets.target import Target, load_target
from tests.sampling import COMPLETE, QUICK, sampled
from tests.targets.cast_pairs import ENGINES, OPSET, Pair, loads, measured, pairs, wider

MODULES = {"openvino-cpu": "openvino", "onnxruntime-cpu": "onnxruntime"}


def taken(target: Target) -> list[Pair]:
    types = [dtype for dtype in NUMERIC_TYPES if dtype in target.types and target.has_kernel("Cast", dtype, OPSET)]
    return list(pairs(types, types))


def explained(target: Target, pair: Pair, context: str) -> bool:
    """True if the file says that this cast, or the one before it in a chain, may be wrong."""
    above = wider(pair.source) if context == "chain" else None
    if above is not None and "casts-are-merged" in target.hazards and pair.source is DataType.UINT32:
        return True
    casts = [pair] if above is None else [pair, Pair(above, pair.source)]
    return any(
        target.wrong_cast(cast.source, cast.to, saturate=cast.saturate, opset=OPSET, inherent=True)
        or target.keeps_high_bits(cast.source, cast.to)
        or target.leaves_unrounded(cast.source, cast.to)
        or {cast.source, cast.to} & target.narrowed.keys()
        for cast in casts
    )


def flushed(pair: Pair, context: str, outcome: Outcome) -> bool:
    """True of 2**-127 alone, which the cast gives, and of which a node that computes after it makes 0.

    OpenVINO computes without subnormals of bfloat16 on some processors.
    """
    first, computes = outcome.first, pair.to is DataType.BFLOAT16 and context in ("moved", "computed")
    return computes and outcome.wrong == 1 and first is not None and first.got.startswith("0.0 ")


def disagreements(target: Target, found: dict[Pair, dict[str, Outcome]]) -> list[str]:
    """Return the casts of which the file says another thing than the runtime does."""
    wrong = [
        f"{pair} {context}: {outcome.first}"
        for pair, outcomes in found.items()
        for context, outcome in outcomes.items()
        if outcome.status == "wrong" and not (explained(target, pair, context) or flushed(pair, context, outcome))
    ]
    return wrong + [
        f"{pair}: loads is {loads(outcomes)}"
        for pair, outcomes in found.items()
        if loads(outcomes) is not target.loads_cast(pair.source, pair.to)
    ]


@pytest.mark.parametrize("name", ENGINES)
def test_the_runtime_casts_as_the_file_of_its_target_says(name: str) -> None:
    if find_spec(MODULES[name]) is None:
        pytest.skip(f"needs {MODULES[name]}")
    target = load_target(name)
    asked = sampled(f"pairs of types in {name}", taken(target), 6 if QUICK else 24)
    version, found = measured(name, asked)
    if version.partition("-")[0].rpartition(".")[0] not in (target.release, target.release.rpartition(".")[0]):
        pytest.skip("what the file says is of another release")
    assert disagreements(target, found) == []
    if COMPLETE:
        _every_statement_is_shown(target, found)


def _every_statement_is_shown(target: Target, found: dict[Pair, dict[str, Outcome]]) -> None:
    wrong = [pair for pair, outcomes in found.items() if any(each.status == "wrong" for each in outcomes.values())]
    for dtype in target.held:
        assert any(dtype in (pair.source, pair.to) for pair in wrong), dtype
    for entry in target.wrong_casts:
        covered = [p for p in wrong if entry.covers(p.source, p.to, saturate=p.saturate, opset=OPSET)]
        assert covered or entry.before_opset is not None, entry


@pytest.mark.parametrize("name", ENGINES)
def test_pairs_are_of_the_types_of_the_target(name: str) -> None:
    target = load_target(name)
    assert target.casts is not None
    assert target.casts.keys() == {pair.source for pair in taken(target)}
    assert all(source in to and to <= target.types for source, to in target.casts.items())


def test_what_the_file_of_openvino_says_of_some_pairs() -> None:
    """The cases from which this data began."""
    target, found = load_target("openvino-cpu"), dict[str, object]()
    named = {type_name(dtype): dtype for dtype in NUMERIC_TYPES}
    for source, to in (("int32", "int16"), ("int8", "uint16"), ("int32", "uint4"), ("int8", "int32")):
        found[f"{source} {to}"] = target.keeps_high_bits(named[source], named[to])
    for source, to in (("int16", "float16"), ("float", "float16"), ("int8", "float16"), ("int64", "float")):
        found[f"{source} {to}"] = target.leaves_unrounded(named[source], named[to])
    for source, to in (("uint8", "float8e8m0"), ("int32", "float4e2m1"), ("float", "float4e2m1")):
        found[f"{source} {to}"] = target.loads_cast(named[source], named[to])
    assert found == {
        "int32 int16": True, "int8 uint16": True, "int32 uint4": True, "int8 int32": False,
        "int16 float16": True, "float float16": True, "int8 float16": False, "int64 float": False,
        "uint8 float8e8m0": False, "int32 float4e2m1": False, "float float4e2m1": True,
    }  # fmt: skip
    assert sorted(map(type_name, target.narrowed)) == ["double", "int64", "uint32", "uint64"]
