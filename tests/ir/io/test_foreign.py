"""Files of other formats in place of a model: the error names the format and the fix, whatever the name."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import castsmith
from castsmith.ir.io.loading import from_bytes

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
CLEAN = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Relu (x) }'


def archive(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for name in names:
            made.writestr(name, b"content")
    return data.getvalue()


def tar() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as made:
        made.addfile(tarfile.TarInfo("a"))
    return data.getvalue()


def array() -> bytes:
    data = io.BytesIO()
    np.save(data, np.ones(3))
    return data.getvalue()


CONTENTS: dict[str, tuple[bytes, str, str]] = {
    "pointer": (POINTER, "a pointer of git LFS", "git lfs pull"),
    "page": (b"\n<!-- x --> <!DOCTYPE HTML><html><body>404</body></html>", "an HTML page", "fetch the file itself"),
    "page in capitals": (b"<HTML>", "an HTML page", "fetch the file itself"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "TensorFlow Lite", "tf2onnx"),
    "ort": (b"\x1c\0\0\0ORTM" + bytes(40), "ORT format", "the ONNX file"),
    "gguf": (b"GGUF\3\0\0\0" + bytes(40), "GGUF", "export the original model"),
    "safetensors": (len(HEADER).to_bytes(8, "little") + HEADER + bytes(4), "safetensors", "torch.onnx.export"),
    "openvino": (b"<?xml version='1.0'?>\n<net name='m' version='11'>", "an OpenVINO model", "it was converted"),
    "engine": (b"ftrt" + bytes(60), "a TensorRT engine", "the ONNX file"),
    "h5": (b"\x89HDF\r\n\x1a\n" + bytes(60), "Keras", "format='onnx'"),
    "pickle": (pickle.dumps({"state": 1}, 2), "a Python pickle", "torch.onnx.export"),
    "engine of another release": (b"ptrt" + bytes(60), "a TensorRT engine", "the ONNX file"),
    "bzip2": (bz2.compress(b"model"), "a bzip2 archive", "unpack"),
    "xz": (lzma.compress(b"model"), "an xz archive", "unpack"),
    "Zstandard": (bytes.fromhex("28b52ffd") + bytes(9), "a Zstandard archive", "unpack"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(26), "a 7z archive", "unpack"),
    "gzip": (gzip.compress(b"model"), "a gzip archive", "unpack"),
    "tar": (tar(), "a tar archive", "unpack"),
    "numpy": (array(), "an array of numpy", "not a model"),
    "text": (CLEAN.encode(), "ONNX text", ".onnxtxt"),
    "empty": (b"", "empty", "expected an ONNX model"),
}
ARCHIVES: dict[str, tuple[bytes, str, str]] = {
    "checkpoint": (archive("archive/data.pkl", "archive/version"), "checkpoint of PyTorch", "torch.onnx.export"),
    "TorchScript": (archive("m/data.pkl", "m/constants.pkl"), "TorchScript", "torch.onnx.export"),
    "pt2": (archive("m/archive_format", "m/models/model.json"), "exported program", "torch.export.load"),
    "keras": (archive("config.json", "model.weights.h5"), "a Keras model", "format='onnx'"),
    "zip with a model": (archive("x/model.onnx"), "a zip archive with x/model.onnx", "unpack"),
    "zip": (archive("readme"), "a zip archive: unpack", "unpack"),
    "damaged zip": (archive("x")[:20], "a zip archive that is damaged", "again"),
}


@pytest.mark.parametrize("kind", [*CONTENTS, *ARCHIVES])
@pytest.mark.parametrize("name", ["model.onnx", "model.pt"])
def test_the_content_decides(tmp_path: Path, kind: str, name: str) -> None:
    content, what, way_out = {**CONTENTS, **ARCHIVES}[kind]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(castsmith.ModelError) as caught:
        castsmith.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert what in message
    assert way_out in message
    assert message.endswith(".")
    assert message.count("\n") == 0
    if kind in CONTENTS:
        with pytest.raises(castsmith.ModelError, match=what):
            from_bytes(content, "standard input")


@pytest.mark.parametrize("name", ["a.mlmodel", "a.ENGINE", "a.trt", "frozen.pb", "weights.bin"])
def test_the_name_decides_where_the_content_does_not(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x08\x01\x12\x00")
    with pytest.raises(castsmith.ModelError, match=r": a .*: (use|convert|name) |which cannot be converted back"):
        castsmith.load(tmp_path / name)
    onnx.save(onnx.parser.parse_model(CLEAN), tmp_path / name, format="protobuf")
    assert castsmith.load(tmp_path / name).graph.name == "g"


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "a.mlpackage").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"")
    for folder, what in {tmp_path / "a.mlpackage": "Core ML", tmp_path: "SavedModel: convert"}.items():
        with pytest.raises(castsmith.ModelError, match=what):
            castsmith.load(folder)
