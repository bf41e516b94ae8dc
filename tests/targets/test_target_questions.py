"""What a target answers about casts, sums, fusions and hazards, alone and with a fallback; how defaults are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from onnx_ir import DataType

from castsmith.numerics.types import CODED_TYPES, ELEMENT_TYPES
from castsmith.targets.statements import TargetError
from castsmith.targets.target import Target, as_target, load_target

_F, _H, _D, _F8 = DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE, DataType.FLOAT8E4M3FN
_B = DataType.BFLOAT16
_I64, _I32, _I8, _U8, _U32 = (DataType[name] for name in ("INT64", "INT32", "INT8", "UINT8", "UINT32"))


def wrong_cast(wrong: str, source: str = "f32", to: str = "f16", **more: Any) -> dict[str, Any]:
    return {"from": [source], "to": [to], "wrong": wrong, "evidence": "e", **more}


def test_what_is_not_stated_is_unknown() -> None:
    assert Target("t").unknown == ("newest_opset", "newest_ir_version", "kernels", "types")
    bare = Target("t")
    assert (bare.newest_opset, bare.newest_ir_version, bare.casts, bare.fallback) == (28, 14, None, None)
    assert bare.types == {dtype for dtype, row in ELEMENT_TYPES.items() if row.since.ir_version <= 14}
    stated = Target("t", "d", 20, 9, types=["f32"], kernels={}, unknown=["casts", "held"])
    assert (stated.unknown, stated.newest_opset, stated.newest_ir_version) == (("casts", "held"), 20, 9)
    assert Target("t", "d", 20, 9, lacks=["f32"], kernels={}).unknown == ()  # types that are lacked state the others
    assert Target("t", "d", 20, 9, lacks=[], kernels={}).unknown == ()
    assert Target("t", unknown=["held", "types"]).unknown == (
        *("newest_opset", "newest_ir_version", "kernels", "types", "held"),
    )
    few = Target("t", types=["f32", "f16"], lacks=["f16"], kernels={"f32": {"Add": 7}, "f16": {"Add": 7}})
    assert (few.types, few.kernels) == ({_F}, {_F: {"Add": 7}})
    assert few.lacks == ELEMENT_TYPES.keys() - {_F}
    with pytest.raises(TargetError, match=r"^the target 't' is not valid: 'wrong' is missing\.$"):
        Target("t", wrong_casts=[{"from": [], "to": []}])
    with pytest.raises(TargetError, match=r"^the target 't' is not valid: unknown key 'odd'; expected name, desc"):
        Target("t", odd=1)


def test_types_that_a_fallback_has() -> None:
    """Codes, and halves, are lowered for the device; other types go to the fallback if it has kernels for them."""
    rows: dict[str, Any] = {"f32": {"Add": 7}, "f64": {"Add": 7}, "i64": {"Add": 7}, "f16": {"Add": 7}, "u8": {}}
    cpu = Target("cpu", kernels={**rows, "f8e4m3fn": {"Cast": 19}}, lacks=["i64"], domains=["a"])
    device = Target("d", types=["f32"], kernels={}, fallback=cpu, domains=["b"])
    assert device.off_device == {_D}
    assert device.lacks == ELEMENT_TYPES.keys() - {_F, _D}
    assert device.domains == {"a", "b"}
    assert Target("d", types=["f32"], fallback=cpu, off_device=["i8"]).off_device == {_I8}
    assert Target("d", types=["f32", "i8"], off_device=["i8"]).types == {_F}
    strict = as_target(device, strict=True)
    assert strict is not None
    assert (strict.fallback, strict.off_device, strict.name) == (None, frozenset(), "d")
    assert as_target(device) is device
    assert as_target(None, strict=True) is None
    assert _F8 in CODED_TYPES


def test_kernels_with_a_fallback() -> None:
    """Of types that the device has, the fallback runs the operators that it lacks; of others, all."""
    rows: dict[str, Any] = {"f32": {"Add": 7, "Mul": 7}, "f64": {"Mul": 7}, "f16": {"Relu": 7}}
    cpu = Target("cpu", kernels=rows, probed=["Add", "Mul", "Relu"])
    device = Target("d", types=["f32", "f16"], kernels={"f32": {"Add": 7}, "f16": {"Add": 7}, "f64": {"Relu": 7}},
                    probed=["Add", "Mul", "Relu"], fallback=cpu, off_device=["f64"])  # fmt: skip
    asked = [("Add", _F), ("Mul", _F), ("Relu", _F), ("Add", _H), ("Relu", _H), ("Mul", _D), ("Add", _D), ("Relu", _D)]
    assert [device.has_kernel(*pair, 21) for pair in asked] == [True, True, False, True, True, True, False, False]
    alone = Target("d", types=["f32"], kernels={"f32": {"Add": 7}}, probed=["Add", "Mul"])
    assert [alone.has_kernel(name, _F, 21) for name in ("Add", "Mul")] == [True, False]
    assert [device.computes(dtype) for dtype in (_F, _H, _D, _I64)] == [True, True, False, False]
    assert [cpu.computes(dtype) for dtype in (_F, _H, _D, _I64)] == [True, False, False, True]


def test_types_off_a_device_without_a_fallback() -> None:
    """Nothing runs them elsewhere."""
    alone = Target("d", types=["f32", "f64"], kernels={"f64": {"Add": 7}, "f32": {"Add": 7}}, off_device=["f64"])
    assert (alone.types, alone.lacks, alone.computes(_D)) == ({_F}, ELEMENT_TYPES.keys() - {_F, _D}, True)
    assert alone.has_kernel("Add", _D, 21)
    assert alone.loads_cast(_D, _F)
    assert alone.wrong_cast(_D, _F, saturate=True, opset=21) is None


def test_casts() -> None:
    cpu = Target("cpu", kernels={"f64": {"Cast": 1}}, casts={"f64": ["i8"], "f32": [], "i8": []})
    device = Target("d", types=["f32", "f16", "i8"], casts={"f32": ["f16"], "f16": []}, fallback=cpu)
    assert device.loads_cast(_F, _H)
    assert not device.loads_cast(_H, _F)
    assert device.loads_cast(_H, _H)
    assert device.loads_cast(_F, _I8)  # no row of int8
    assert device.loads_cast(_I8, _F)
    assert device.loads_cast(_D, _I8)  # the fallback casts it
    assert not device.loads_cast(_I8, _D)
    assert not device.loads_cast(_D, _F)
    assert Target("t").loads_cast(_F, _H)


def test_which_entry_of_a_wrong_cast_answers() -> None:
    entries = [
        wrong_cast("held", inherent=True),
        wrong_cast("disputed", disputed=True),
        wrong_cast("second", before_opset=20),
        wrong_cast("third"),
        wrong_cast("held alone", "i64", "i8", inherent=True),
        wrong_cast("unsaturated", "f32", "f8e4m3fn", saturate=False),
    ]
    target = Target("t", wrong_casts=entries)

    def answer(
        source: DataType, to: DataType, opset: int = 19, *, saturate: bool = True, inherent: bool = False
    ) -> str:
        found = target.wrong_cast(source, to, saturate=saturate, opset=opset, inherent=inherent)
        return "" if found is None else found.wrong

    assert [answer(_F, _H), answer(_F, _H, 20), answer(_F, _H, inherent=True)] == ["second", "third", "second"]
    assert [answer(_I64, _I8), answer(_I64, _I8, inherent=True)] == ["", "held alone"]
    assert [answer(_F, _F8), answer(_F, _F8, saturate=False)] == ["", "unsaturated"]
    assert answer(_H, _F) == ""


def test_types_that_are_held_in_others() -> None:
    held = {"i8": "i32", "u8": "i32", "i64": "i32", "f16": "f32", "f64": "f32", "u32": "i32"}
    target = Target("t", held=held)
    assert target.narrowed == {_I64: _I32, _D: _F, _U32: _I32}
    high = {(a, b) for a in (_I64, _I32, _I8, _U8, _F) for b in (_I32, _I8, _U8, _H) if target.keeps_high_bits(a, b)}
    assert high == {(_I64, _I8), (_I32, _I8), (_U8, _I8), (_I64, _U8), (_I32, _U8), (_I8, _U8)}
    unrounded = {(a, b) for a in (_F, _H, _D, _I8, _I32) for b in (_H, _F, _D, _I8) if target.leaves_unrounded(a, b)}
    assert unrounded == {(_F, _H), (_D, _H), (_I32, _H)}
    narrower = Target("t", held={"f32": "bf16", "f16": "bf16", "bf16": "f32", "i8": "f32"})  # which lose more
    pairs = {(a, b) for a in (_F, _H, _D) for b in (_F, _H, _B, _I8) if narrower.leaves_unrounded(a, b)}
    assert pairs == {(_F, _B), (_D, _B), (_H, _B)}
    device = Target("d", types=["f32"], kernels={}, held={"i64": "i8"}, fallback=target, off_device=["f16"])
    assert device.narrowed == {_I64: _I8, _D: _F, _U32: _I32}
    assert device.leaves_unrounded(_F, _H)  # the fallback does the cast
    assert not Target("d", types=["f32"], fallback=target, off_device=["f64"]).leaves_unrounded(_F, _H)


def test_sums_fusions_and_operands() -> None:
    fusions = [
        {"types": ["f16"], "operators": ["Add"], "how": "first"},
        {"types": ["f16", "f32"], "operators": ["Add", "Mul"], "how": "second"},
    ]
    target = Target(
        "t", sums={"MatMul": "f32", "*": "f16"}, wrong_fusions=fusions, unchecked_types={"f16": {"Conv.1": 1}}
    )
    assert [target.sums_in(name) for name in ("MatMul", "ReduceSum")] == [_F, _H]
    assert Target("t", sums={"MatMul": "f32"}).sums_in("ReduceSum") is None
    asked = [("Add", _H), ("Add", _F), ("Mul", _H), ("Mul", _D), ("Neg", _F)]
    assert [target.fusion_defect(*pair) for pair in asked] == ["first", "second", "second", None, None]
    places = [("Conv", 1, _H), ("Conv", 0, _H), ("Conv", 1, _F), ("Gemm", 1, _H)]
    assert [target.leaves_unchecked(*place) for place in places] == [True, False, False, False]


def test_hazards_of_the_target_and_of_its_fallback() -> None:
    plain = Target("t")
    for hazard, property_name in (
        ("same-node-names", "refuses_same_names"),
        ("attributes-without-effect", "refuses_idle_attributes"),
    ):
        having = Target("t", hazards={hazard: ""})
        behind = Target("t", fallback=having)
        assert [getattr(target, property_name) for target in (plain, having, behind)] == [False, True, True]
        assert not behind.has_hazard("other")


@pytest.mark.parametrize(
    ("release", "newest", "stale"),
    [
        ("1.0", "1.0 (2026-11-25)", False),
        ("1.0 cpu", "1.0", False),
        ("1.0", "1.1", True),
        ("", "1.1", True),
        ("1", "", False),
    ],
)
def test_when_facts_are_stale(release: str, newest: str, stale: bool) -> None:
    assert Target("t", release=release, newest_release=newest).is_stale is stale


def test_a_file_that_is_based_on_a_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    base = load_target("onnxruntime-cpu")
    path.write_text(json.dumps({"name": "m", "based_on": base.name, "newest_opset": 20, "evidence": {"types": "mine"}}))
    target = load_target(str(path))
    assert (target.name, target.newest_opset, target.kernels, target.path) == ("m", 20, base.kernels, str(path))
    assert target.evidence == {**base.evidence, "types": "mine"}
    assert str(target) == str(path)
    assert str(base) == base.name
    path.write_text(json.dumps({"name": "m", "based_on": "onnxruntime-cup"}))
    with pytest.raises(
        TargetError, match=r"mine\.json does not describe a target: unknown target 'onnxruntime-cup'; exp"
    ):
        load_target(str(path))
    path.rename(tmp_path / "mine.txt")
    (tmp_path / "mine.txt").write_text(json.dumps({"name": "m"}))
    assert load_target(str(tmp_path / "mine.txt")).path == str(tmp_path / "mine.txt")
