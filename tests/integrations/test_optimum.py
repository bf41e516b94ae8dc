"""`optimum-cli onnx castsmith`, and `slim` after an export."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

check_and_save_model = pytest.importorskip("optimum.onnx.graph_transformations").check_and_save_model

from castsmith.integrations.optimum import slim

HALF = onnx.TensorProto.FLOAT16


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A folder as Optimum exports one: models with weights beside them, and a configuration."""
    folder = tmp_path / "exported"
    for name in ("model", "decoder/model"):
        file = folder / f"{name}.onnx"
        file.parent.mkdir(parents=True, exist_ok=True)
        model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
            g (float[N, 64] x) => (float[N, 64] y) { y = MatMul (x, w) }""")
        weights = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [64, 64], [0.5] * 4096)
        model.graph.initializer.append(weights)
        onnx.save(model, file, save_as_external_data=True, location=f"{file.name}_data")
    (folder / "decoder" / "config.json").write_text("{}")
    return folder


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "optimum.commands.optimum_cli", "onnx", "castsmith", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_folder_is_converted_with_its_other_files(exported: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    done = run("--onnx_model", exported, "-o", output, "--to", "float16", "--target", "onnxruntime-cuda")
    assert done.returncode == 0, done.stderr
    for name in ("model.onnx", "decoder/model.onnx"):
        model = onnx.load(output / name)
        assert [tensor.data_type for tensor in model.graph.initializer] == [HALF]
        onnx.checker.check_model(model, full_check=True)
    assert (output / "decoder" / "config.json").read_text() == "{}"
    assert not list(output.rglob("*.onnx_data"))  # the weights before the conversion


def test_a_refusal_is_the_exit_code(exported: Path, tmp_path: Path) -> None:
    done = run("--onnx_model", exported, "-o", tmp_path / "out", "--target", "webgpuu")
    assert (done.returncode, "did you mean" in done.stderr) == (2, True), done.stderr
    done = run("--onnx_model", exported / "absent", "-o", tmp_path / "out")
    assert (done.returncode, "is no folder" in done.stderr) == (1, True), done.stderr


def test_slim_takes_the_place_of_onnxslim(exported: Path) -> None:
    path = exported / "model.onnx"
    check_and_save_model(slim(path, to="float16"), path)
    assert [tensor.data_type for tensor in onnx.load(path).graph.initializer] == [HALF]
    assert slim(path) == slim(onnx.load(path))
