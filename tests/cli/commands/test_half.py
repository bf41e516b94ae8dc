"""A model in float16 that goes wrong, on the command line: healed, rescaled, bounded and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import castsmith
from castsmith.cli.main import main
from tests.lowering.test_conversion_healing import case_of


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A float16 model and the inputs on which it goes wrong, in files."""
    case, model, data = case_of("RMSNorm"), tmp_path / "model.onnx", tmp_path / "data.npz"
    proto = case.shipped()
    for node in proto.graph.node:
        node.name = f"/layers.0/norm/{node.output[0]}"
    onnx.save(proto, model)
    np.savez(data, x=case.inputs()["x"])
    return str(model), str(data)


@pytest.mark.parametrize("options", [[], ["--rescale"]], ids=["healed", "rescaled"])
def test_convert_tells_the_places_and_both_errors(files: tuple[str, str], options: list[str], capsys: Any) -> None:
    model, data = files
    out = str(Path(model).with_name("out.onnx"))
    assert main(["convert", model, "-o", out, "--to", "float16", "--inputs", data, *options]) == 0
    told = capsys.readouterr().out
    assert "/layers.0/norm/n_sq (Pow): n_sq reaches" in told
    assert "error before: 1\n" in told
    assert ("values scaled: " in told) == bool(options)
    assert main(["convert", model, "-o", out, "--to", "float16", "--inputs", data, "--json", *options]) == 0
    report = json.loads(capsys.readouterr().out)["conversion"]
    assert report["faults"][0]["kind"] == "overflow"
    assert report["before"]["outputs"][0]["relative"] > 0.5 > report["error"]["outputs"][0]["relative"]
    assert bool(report["factors"]) == bool(options)
    assert castsmith.diff(model, out)


def test_bounds_lists_the_places(files: tuple[str, str], capsys: Any) -> None:
    model, data = files
    assert main(["bounds", model, "--to", "float16", "--inputs", data]) == 1
    told = capsys.readouterr().out
    assert "nodes of this model go wrong in float16 on these inputs" in told
    assert "/layers.0/norm/n_sq (Pow): n_sq reaches" in told
    assert main(["bounds", model, "--to", "float16", "--inputs", data, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["faults"][0]["place"] == "/layers.0/norm/n_sq (Pow)"


def test_check_reports_them_as_findings(files: tuple[str, str], capsys: Any) -> None:
    model, data = files
    assert main(["check", model]) == 0
    assert main(["check", model, "--inputs", data]) == 1
    told = capsys.readouterr().out
    assert told.count("wrong-in-float16") == 3
    assert "convert --to float16" in told
    found = castsmith.check(model, inputs=data)
    assert {each.code for each in found} == {"wrong-in-float16"}


def test_an_infinite_error_is_refused_with_the_next_step(tmp_path: Path, capsys: Any) -> None:
    model, data = tmp_path / "model.onnx", tmp_path / "data.npz"
    text = '<ir_version: 8, opset_import: ["": 17]> g (float16[4] x) => (float16[4] y) { y = Mul (x, x) }'
    onnx.save(onnx.parser.parse_model(text), model)
    np.savez(data, x=np.full(4, 1000, np.float16))
    out = tmp_path / "out.onnx"
    assert main(["convert", str(model), "-o", str(out), "--to", "float16", "--inputs", str(data)]) == 1
    told = capsys.readouterr().err
    assert "infinite-error" in told
    assert "convert --to float" in told
    assert not out.exists()
