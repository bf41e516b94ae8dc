"""Weights that are copied by the kernel or not, tensors in data files, files that take a name, models in streams."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.ir.errors import ModelError
from castsmith.ir.io import files, saving
from castsmith.ir.io.file_ranges import FileRange, StoredTensor, copy_range, open_external
from castsmith.ir.io.saving import write_to

_DATA = bytes(range(256)) * 8


def stopping(real: Any, most: int, error: int = 0) -> Any:
    """Stands for the call of the kernel: copies so many bytes at most, then fails or copies nothing."""
    left = [most]

    def copy(source: int, out: int, length: int, at: int, to: int) -> int:
        if not left[0]:
            if error:
                raise OSError(error, os.strerror(error))
            return 0
        done = real(source, out, min(length, left[0]), at, to)
        left[0] -= done
        return done

    return copy


@pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="a call of Linux")
@pytest.mark.parametrize("error", [0, errno.EXDEV, errno.EINVAL, errno.EIO])
@pytest.mark.parametrize("most", [0, 100, 5000])
@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_a_range_is_copied_with_or_without_the_kernel(
    error: int, most: int, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "copy_file_range", stopping(os.copy_file_range, most, error))
    monkeypatch.setattr("castsmith.ir.io.file_ranges._CHUNK", chunk)
    (tmp_path / "a").write_bytes(_DATA)
    with open(tmp_path / "a", "rb") as source, open(tmp_path / "b", "wb") as out:
        out.write(b"head")
        if error == errno.EIO and most < 1000:
            with pytest.raises(OSError, match="Input/output error"):
                copy_range(FileRange(source, 300, 1000), out)
            return
        copy_range(FileRange(source, 300, 1000), out)
        out.write(b"tail")
    assert (tmp_path / "b").read_bytes() == b"head" + _DATA[300:1300] + b"tail"


def test_a_range_is_copied_where_the_system_has_no_such_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    (tmp_path / "a").write_bytes(_DATA)
    with open(tmp_path / "a", "rb") as source, open(tmp_path / "b", "wb") as out:
        copy_range(FileRange(source, 2, 1000), out)
        with pytest.raises(OSError, match="the file that holds the weights has become shorter"):
            copy_range(FileRange(source, 1048, 1001), out)
    assert (tmp_path / "b").read_bytes()[:1000] == _DATA[2:1002]


def saved(folder: Path) -> Path:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) { a = Add (x, w) y = Add (a, e) }'
    )
    arrays = {"w": np.arange(4, dtype=np.float32), "e": np.zeros((0,), np.float32)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    path = folder / "m.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def test_a_tensor_in_a_data_file(tmp_path: Path) -> None:
    model = castsmith.load(saved(tmp_path))
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, StoredTensor)
    assert tensor.path == str(tmp_path.resolve() / "w.bin")
    assert not tensor.is_mapped
    with open(tmp_path / "out", "wb") as file:
        tensor.tofile(file)
    assert (tmp_path / "out").read_bytes() == np.arange(4, dtype=np.float32).tobytes() == tensor.tobytes()
    assert tensor.is_mapped
    assert tensor.numpy().tolist() == np.asarray(tensor).tolist() == [0, 1, 2, 3]
    assert np.asarray(tensor, np.float64).dtype == np.float64
    empty = model.graph.initializers["e"].const_value
    assert empty is not None
    assert empty.numpy().shape == (0,)


def test_a_data_file_that_moved_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    model = castsmith.load(saved(folder))
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, StoredTensor)
    with open_external(tensor) as file:
        assert file.read(4) == bytes(4)
    os.rename(folder / "w.bin", tmp_path / "w.bin")
    os.symlink(tmp_path / "w.bin", folder / "w.bin")
    with pytest.raises(ModelError, match=r"^tensor 'w' keeps its data in 'w\.bin', outside the model's folder\.$"):
        open_external(tensor)


@pytest.mark.parametrize("error", [0, errno.EPERM, errno.EOPNOTSUPP, errno.EIO])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_file_takes_a_name(error: int, is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part, path = tmp_path / "part", tmp_path / "name"
    part.write_bytes(b"new")
    if is_there:
        path.write_bytes(b"old")

    def refused(*_paths: object) -> None:
        raise OSError(error, os.strerror(error))

    if error:
        monkeypatch.setattr(os, "link", refused)
    if error == errno.EIO:
        with pytest.raises(OSError, match="Input/output error"):
            files.publish(part, path)
    elif is_there:
        with pytest.raises(FileExistsError):
            files.publish(part, path)
    else:
        files.publish(part, path)
        assert path.read_bytes() == b"new"
    assert path.exists() is (is_there or error != errno.EIO)
    assert not is_there or path.read_bytes() == b"old"


def test_a_model_in_a_stream_holds_all_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = castsmith.load(saved(tmp_path))
    stream = io.BytesIO()
    assert write_to(model, stream, "standard output") == len(stream.getvalue())
    made = onnx.ModelProto.FromString(stream.getvalue())
    found = {each.name: onnx.numpy_helper.to_array(each).tolist() for each in made.graph.initializer}
    assert found == {"w": [0, 1, 2, 3], "e": []}
    assert isinstance(model.graph.initializers["w"].const_value, StoredTensor)
    monkeypatch.setattr(saving, "_INLINE_LIMIT", 16)
    write_to(model, io.BytesIO(), "standard output")
    monkeypatch.setattr(saving, "_INLINE_LIMIT", 15)
    text = (
        r"^standard output: the model has 16 bytes of weights, more than the 2 GiB of an ONNX file: write it to a named"
    )
    with pytest.raises(ModelError, match=text):
        write_to(model, io.BytesIO(), "standard output")


def test_names_that_clash_are_settled_in_a_copy(tmp_path: Path) -> None:
    text = "g (float[4] x) => (float[4] y) { a = Abs (x) b = Neg (a) y = Exp (b) }"
    model = onnx_ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}'))
    for value in (model.graph.node(0).outputs[0], model.graph.node(1).outputs[0]):
        value.name = "same"
    stream = io.BytesIO()
    write_to(model, stream, "m")
    onnx.checker.check_model(onnx.ModelProto.FromString(stream.getvalue()))
    castsmith.save(model, tmp_path / "m.onnx")
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    assert [node.outputs[0].name for node in model.graph][:2] == ["same", "same"]
