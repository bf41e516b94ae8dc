"""Files that are not ONNX, recognised by their content or name: one clause for the error, with the fix.

Nothing in such a file is run or unpacked: the first bytes decide, of a zip archive the names in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

_TORCH = "export the model with torch.onnx.export"

_HEAD = 4096
"""Bytes of a file that are looked at."""

_STARTS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"version https://git-lfs.github.com/spec/", "a pointer of git LFS, not the model: fetch it with git lfs pull"),
    (4, b"TFL3", "a TensorFlow Lite model: convert it with tf2onnx"),
    (4, b"ORTM", "a model in the ORT format of ONNX Runtime: use the ONNX file it was made from"),
    (0, b"GGUF", "GGUF weights of llama.cpp, without a graph: export the original model to ONNX"),
    (0, b"ftrt", "a TensorRT engine, which cannot be converted back: use the ONNX file it was built from"),
    (0, b"ptrt", "a TensorRT engine, which cannot be converted back: use the ONNX file it was built from"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as a Keras model: export it with model.export(..., format='onnx')"),
    (0, b"\x93NUMPY", "an array of numpy, not a model"),
    (0, b"\x1f\x8b", "a gzip archive: unpack it first"),
    (0, b"BZh", "a bzip2 archive: unpack it first"),
    (0, b"\xfd7zXZ\x00", "an xz archive: unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive: unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
    (257, b"ustar", "a tar archive: unpack it first"),
)
"""Offset and bytes of a format, and its clause."""

_NAMES: dict[str, str] = {
    ".mlmodel": "a Core ML model: use the model it was converted from",
    ".mlpackage": "a Core ML model: use the model it was converted from",
    ".mlmodelc": "a Core ML model: use the model it was converted from",
    ".engine": "a TensorRT engine, which cannot be converted back: use the ONNX file it was built from",
    ".plan": "a TensorRT engine, which cannot be converted back: use the ONNX file it was built from",
    ".trt": "a TensorRT engine, which cannot be converted back: use the ONNX file it was built from",
    ".pb": "a TensorFlow graph: convert it with tf2onnx",
    ".data": "a file of model weights: use the model instead",
    ".bin": "a file of model weights: use the model instead",
}
"""By suffix, for formats without bytes of their own at the start."""

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_HTML = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head)\b", re.IGNORECASE | re.DOTALL)
_OPENVINO = re.compile(rb"\s*(<\?xml[^>]*\?>\s*)?<net\b")
_TEXT = re.compile(rb"\s*<\s*ir_version\s*:")


def foreign_file(path: Path) -> str:
    """Return what the file or folder is instead of an ONNX model, and the fix; empty if it is not recognised."""
    if path.is_dir():
        if (path / "saved_model.pb").is_file():
            return "a TensorFlow SavedModel: convert it with tf2onnx"
        return _NAMES.get(path.suffix.lower(), "")
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PK\x03\x04"):
        return _of_archive(path)
    return foreign_bytes(head) or _NAMES.get(path.suffix.lower(), "")


def foreign_bytes(head: bytes) -> str:
    """Return what the content that begins with `head` is instead of an ONNX model; empty if it is not recognised."""
    if not head:
        return "empty, expected an ONNX model"
    for offset, mark, clause in _STARTS:
        if head.startswith(mark, offset):
            return clause
    tests: Iterable[tuple[Callable[[bytes], object], str]] = (
        (_is_safetensors, f"weights in the safetensors format, without a graph: {_TORCH}"),
        (_PICKLE.match, f"a Python pickle, such as a checkpoint of PyTorch, which is not opened: {_TORCH}"),
        (_HTML.match, "an HTML page, probably served instead of the download: fetch the file itself"),
        (_OPENVINO.match, "an OpenVINO model: use the model it was converted from"),
        (_TEXT.match, "ONNX text: give it a name that ends in .onnxtxt"),
    )
    return next((clause for test, clause in tests if test(head)), "")


def _is_safetensors(head: bytes) -> bool:
    """True for the length of a header in 8 bytes, followed by the header, which is a JSON object."""
    return len(head) > 9 and head[8:10] in (b'{"', b"{}") and int.from_bytes(head[:8], "little") < 1 << 32


def _of_archive(path: Path) -> str:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return "a zip archive that is damaged or truncated: fetch it again"
    ends = {name.rpartition("/")[2] for name in names}
    if "constants.pkl" in ends:
        return f"a TorchScript model: {_TORCH}"
    if "data.pkl" in ends:
        return f"a checkpoint of PyTorch, which is not opened: {_TORCH}"
    if "archive_format" in ends or "serialized_exported_program.json" in ends:
        return "an exported program of PyTorch: export it with torch.onnx.export(torch.export.load(...))"
    if "model.weights.h5" in ends:
        return "a Keras model: export it with model.export(..., format='onnx')"
    models = [name for name in names if name.endswith(".onnx")]
    return f"a zip archive{f' with {models[0]}' if models else ''}: unpack it first"
