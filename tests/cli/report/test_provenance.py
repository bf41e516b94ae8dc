"""New nodes say which rule made them; old ones are left alone; long equal rewrites are shown once."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir

import castsmith as public
from tests.cli.helpers import MIXED, Command, write_model

FOLDER = Path(__file__).parents[3] / "models"


def test_new_nodes_say_what_made_them(castsmith: Command, tmp_path: Path) -> None:
    out = tmp_path / "b.onnx"
    assert castsmith("optimize", write_model(tmp_path / "a.onnx", MIXED), "-o", out).code == 0
    cast, add = onnx.load_model(out).graph.node
    found = {entry.key: entry.value for entry in cast.metadata_props}
    assert found["castsmith.rule"] == "resolve-promotion"
    assert found["castsmith.pass"] == "resolve-promote-types"
    assert "ConvertPromoteTypes" in found["castsmith.from"]
    assert not add.metadata_props


def test_it_can_be_left_out(castsmith: Command, tmp_path: Path) -> None:
    out = tmp_path / "b.onnx"
    assert castsmith("optimize", write_model(tmp_path / "a.onnx", MIXED), "-o", out, "--no-provenance").code == 0
    assert not any(node.metadata_props for node in onnx.load_model(out).graph.node)


def test_every_new_node_of_a_lowering_is_marked() -> None:
    model = public.load(FOLDER / "float8_transformer.onnx")
    old = {node.name for node in model.graph}
    result = public.optimize(model, target="onnxruntime-android").model
    new = [node for node in result.graph if node.name not in old]
    assert len(new) > 20
    assert all(node.metadata_props["castsmith.rule"] == "lower-Cast" for node in new)
    assert not any("castsmith.rule" in node.metadata_props for node in result.graph if node not in new)


def test_old_ir_versions_have_no_place_for_it() -> None:
    result = public.optimize(onnx.parser.parse_model(MIXED.replace("ir_version: 10", "ir_version: 8")))
    assert not any(node.metadata_props for node in result.model.graph)


def test_loading_and_saving_keeps_it(tmp_path: Path) -> None:
    result = public.optimize(onnx.parser.parse_model(MIXED))
    public.save(result.model, tmp_path / "a.onnx")
    public.save(public.load(tmp_path / "a.onnx"), tmp_path / "b.onnx")
    assert onnx_ir.to_proto(public.load(tmp_path / "b.onnx")) == onnx.load_model(tmp_path / "a.onnx")


def test_long_equal_rewrites_are_shown_once(castsmith: Command, tmp_path: Path) -> None:
    source, out = FOLDER / "float8_transformer.onnx", tmp_path / "b.onnx"
    words = ("optimize", source, "-o", out, "--target", "onnxruntime-android")
    short, full = castsmith(*words, "--diff").out, castsmith(*words, "--diff=full").out
    assert "in the same way (shown by --diff=full), " in short
    assert len(short.splitlines()) < len(full.splitlines())
    assert "in the same way" not in full


def test_the_summary_counts_casts_by_rule(castsmith: Command, tmp_path: Path) -> None:
    ended = castsmith("optimize", write_model(tmp_path / "a.onnx", MIXED), "-o", tmp_path / "b.onnx", "--diff")
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["pass", "rule", "count", "casts"] in lines
    assert ["resolve-promote-types", "resolve-promotion", "1", "+1"] in lines
