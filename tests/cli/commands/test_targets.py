"""`targets`, and files of targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from castsmith.cli.commands.targets import _as_data, _cast_text, _facts  # pyright: ignore[reportPrivateUsage]
from castsmith.targets.target import ALIASES, load_target, target_names
from tests.cli.helpers import CHAIN, Command, is_one_sentence, write_model


def test_targets(castsmith: Command) -> None:
    assert [line.split()[0] for line in castsmith("targets").out.splitlines()] == target_names()
    data = json.loads(castsmith("targets", "--json").out)
    assert [target["name"] for target in data["targets"]] == target_names()
    assert {alias: target["name"] for target in data["targets"] for alias in target["aliases"]} == ALIASES
    lines = {line.split()[0]: line for line in castsmith("targets").out.splitlines()}
    assert lines["onnxruntime-webgpu"].endswith(" (also web, webgpu)")
    shown = castsmith("targets", "show", "ort", "--json")
    assert json.loads(shown.out)["target"]["name"] == "onnxruntime-cpu"
    assert shown.err == "castsmith: ort is onnxruntime-cpu.\n"


@pytest.mark.parametrize("name", target_names())
def test_targets_show(castsmith: Command, name: str) -> None:
    ended = castsmith("targets", "show", name)
    assert ended.code == 0
    assert ended.out.startswith(f"{name}: ")
    for words in (("show", name, "--json"), ("--json", "show", name)):
        data = json.loads(castsmith("targets", *words).out)["target"]
        assert data["name"] == name
        assert f"newest opset {data['newest_opset'] or 'unknown'}" in ended.out


def test_an_alias_of_a_target_is_said_once(castsmith: Command, tmp_path: Path) -> None:
    ended = castsmith("targets", "show", "trt")
    assert (ended.code, ended.err) == (0, "castsmith: trt is tensorrt-11.\n")
    assert ended.out.startswith("tensorrt-11: ")
    models = [write_model(tmp_path / f"{name}.onnx", CHAIN) for name in "ab"]
    ended = castsmith("check", *map(str, models), "--target", "ort")
    assert ended.err == "castsmith: ort is onnxruntime-cpu.\ncastsmith: 0 errors in 0 of 2 models.\n"


def test_a_target_file_is_named_as_typed(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(Path("a.onnx"), CHAIN)
    Path("npu.json").write_text('{"name": "n", "description": "", "types": ["int8"], "kernels": []}')
    ended = castsmith("check", "a.onnx", "--target", "./npu.json")
    assert "./npu.json has no double, which" in ended.out
    assert "(optimize --target ./npu.json does not help; fit --target ./npu.json" in ended.out
    assert "the facts about ./npu.json do not include its newest opset and newest IR version" in ended.out


def test_the_conditions_of_each_wrong_cast_are_shown(castsmith: Command, tmp_path: Path) -> None:
    entry = {"from": ["float", "double"], "to": ["int8"], "wrong": "rounds", "evidence": "measured"}
    conditions = {
        "": {},
        " (saturate = 0)": {"saturate": False},
        " (saturate = 1)": {"saturate": True},
        " (before opset 9)": {"before_opset": 9},
        " (disputed)": {"disputed": True},
        " (left to it)": {"inherent": True},
        " (saturate = 1; before opset 9; disputed; left to it)": {
            "saturate": True, "before_opset": 9, "disputed": True, "inherent": True
        },
    }  # fmt: skip
    for said, more in conditions.items():
        described = {"name": "n", "description": "", "types": ["float", "int8"], "wrong_casts": [{**entry, **more}]}
        (tmp_path / "npu.json").write_text(json.dumps(described))
        shown = castsmith("targets", "show", tmp_path / "npu.json").out
        assert f"float, double to int8{said}" in [line.strip().partition(": ")[0] for line in shown.splitlines()]


def test_an_unknown_target_is_bad_usage(castsmith: Command) -> None:
    ended = castsmith("targets", "show", "abacus")
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert all(name in ended.err for name in target_names())


def said(tmp_path: Path, **facts: object) -> list[str]:
    """Return the facts about a target with these, one a line, beside its newest opset and IR version."""
    data = {"name": "t", "description": "d", "types": ["float", "float16", "int8", "float8e4m3fn"], "kernels": {}}
    (tmp_path / "t.json").write_text(json.dumps({**data, **facts}))
    lines = list(_facts(_as_data(load_target(str(tmp_path / "t.json")))))
    return [line for line in lines if "unsupported types" not in line]


TYPES = "  types: int8, float8e4m3fn, float16, float"
NEWEST = "  newest opset unknown, newest IR version unknown"


def test_the_facts_about_a_target(tmp_path: Path) -> None:
    assert said(tmp_path) == [NEWEST, TYPES]
    assert said(tmp_path, types=[])[1] == "  types: none"
    assert said(tmp_path, newest_opset=21, newest_ir_version=10)[0] == "  newest opset 21, newest IR version 10"
    for newest, text in (("", "the newest is unknown"), ("1.3 (2026-11-01)", "1.3 (2026-11-01) is the newest seen")):
        lines = said(tmp_path, release="1.2", newest_release=newest)
        stale = " (out of date)" if newest else ""
        assert lines[0] == f"  release 1.2{stale}; {text}"
    casts = {"float": ["float16", "int8"], "float16": ["float", "int8", "float16"], "int8": ["float"]}
    assert said(tmp_path, casts=casts)[2:] == ["  rejected casts: int8 to float16"]
    assert said(tmp_path, casts={"float": ["float16"], "float16": ["float"]})[2:] == ["  rejected casts: none"]
    casts = {"float": [], "float16": ["float"], "int8": ["float", "float16"]}
    assert said(tmp_path, casts=casts)[2:] == ["  rejected casts: float to int8 and float16, float16 to int8"]
    assert said(tmp_path, held={"float16": "float"})[2:] == ["  holds: float16 in float"]
    assert said(tmp_path, kernels={"float8e4m3fn": {"Cast": 19, "Relu": 21}})[2:] == [
        "  float8 in: Cast (opset 19), Relu (opset 21)"
    ]
    assert said(tmp_path, as_written="measured")[2:] == ["  computes as written: measured"]
    assert said(tmp_path, evidence={"": "all of it", "casts": "probed"})[2:] == [
        "  evidence:", "    all of it", "    casts: probed",
    ]  # fmt: skip


def test_the_whole_text_about_a_target(castsmith: Command, tmp_path: Path) -> None:
    facts = {"types": ["int8"], "kernels": [], "hazards": {"fast-sums": "adds in any order"}}
    path = tmp_path / "t.json"
    for more, expected in (
        ({}, ["  types: unknown", "  unsupported types: unknown", "  operators by type: unknown"]),
        ({"types": ["int8"]}, ["  types: int8", None, "  operators by type: unknown"]),
        (facts, ["  types: int8", None, "  hazards:", "    fast-sums  adds in any order"]),
    ):
        path.write_text(json.dumps({"name": "t", "description": "d", **more}))
        lines = castsmith("targets", "show", path).out.splitlines()
        assert lines[:2] == ["t: d", NEWEST]
        assert [line if a is not None else None for a, line in zip(expected, lines[2:], strict=True)] == expected
    lacks = [line for line in lines if line.startswith("  unsupported types: ")]
    assert lacks[0].startswith("  unsupported types: bool, int2, uint2, int4, ")
    assert "int8" not in lacks[0].split(": ")[1].split(", ")
    every = json.loads(castsmith("targets", "show", path, "--json").out)["target"]["lacks"]
    path.write_text(json.dumps({"name": "t", "description": "d", "types": ["int8", *every], "kernels": []}))
    assert "  unsupported types: nothing" in castsmith("targets", "show", path).out.splitlines()


def test_a_cast_that_a_target_computes_otherwise() -> None:
    cast = {"from": ["float", "half"], "to": ["int8"], "saturate": None, "before_opset": None, "disputed": False}
    cast |= {"inherent": False}
    for changes, text in (
        ({}, ""), ({"saturate": True}, " (saturate = 1)"), ({"saturate": False}, " (saturate = 0)"),
        ({"before_opset": 19}, " (before opset 19)"), ({"disputed": True}, " (disputed)"),
        ({"inherent": True}, " (left to it)"),
        ({"saturate": False, "disputed": True}, " (saturate = 0; disputed)"),
    ):  # fmt: skip
        assert _cast_text({**cast, **changes}) == f"float, half to int8{text}"
