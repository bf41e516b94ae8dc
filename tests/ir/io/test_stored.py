"""Tensors in data files, and models in streams."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.ir.errors import ModelError
from castsmith.ir.io import loading, saving, stored
from castsmith.ir.io.saving import write_to
from castsmith.ir.io.stored import DataFile, FileTensor, Range, StoredTensor, opened, range_of, relabelled

_DATA = bytes(range(256)) * 8


@pytest.mark.parametrize("chunk", [7, 1000, 1 << 20])
@pytest.mark.parametrize("stays_open", [False, True])
def test_a_range_is_copied(chunk: int, stays_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_CHUNK", chunk)
    (tmp_path / "a").write_bytes(_DATA)
    file = DataFile((tmp_path / "a").resolve(), stays_open=stays_open)
    with open(tmp_path / "b", "wb") as out:
        out.write(b"head")
        Range(file, 300, 1000).copy_to(out)
        Range(file, 300, 0).copy_to(out)
        out.write(b"tail")
    assert (tmp_path / "b").read_bytes() == b"head" + _DATA[300:1300] + b"tail"


@pytest.mark.parametrize("stays_open", [False, True])
def test_nothing_is_read_of_an_empty_file(stays_open: bool, tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a"
    path.write_bytes(b"")
    file = DataFile(path, stays_open=stays_open)
    assert (file.is_in_place, bytes(file.view(0, 0))) == (True, b"")


@pytest.mark.parametrize("stays_open", [False, True])
def test_a_file_that_changed_in_place_is_not_read(stays_open: bool, tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a"
    path.write_bytes(_DATA)
    file = DataFile(path, stays_open=stays_open)
    assert file.is_in_place
    assert bytes(file.view(2048 - 3, 3)) == _DATA[-3:]
    os.truncate(path, 2000)
    assert not file.is_in_place
    text = rf"^{path}: the file was changed while it was in use: load the model again\.$"
    with pytest.raises(ModelError, match=text):
        file.view(1999, 2)
    os.truncate(path, 0)
    with pytest.raises(ModelError, match=text):
        file.view(0, 1)
    assert bytes(file.view(0, 0)) == b""


def test_an_open_file_keeps_its_content_when_another_takes_its_name(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a"
    path.write_bytes(_DATA)
    kept, closed = DataFile(path), DataFile(path, stays_open=False)
    path.unlink()
    path.write_bytes(bytes(2048))
    assert bytes(kept.view(0, 2048)) == _DATA
    with pytest.raises(ModelError, match="the file was changed while it was in use"):
        closed.view(0, 1)
    path.unlink()
    with pytest.raises(ModelError, match=r"the file cannot be read \(No such file or directory\)"):
        closed.view(0, 1)


def test_a_data_file_is_mapped_once(tmp_path: Path) -> None:
    """A process maps few files, and some limit the addresses that it uses."""
    count = 40
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> g () => (float[4] w0) { }')
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.full(4, index, np.float32), f"w{index}") for index in range(count)
    )
    path = tmp_path / "m.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    tensors = [value.const_value for value in castsmith.load(path).graph.initializers.values()]
    files = {tensor.range.file for tensor in tensors if isinstance(tensor, StoredTensor)}
    assert len(tensors) == count
    assert len(files) == 1
    maps = Path("/proc/self/maps")
    assert [int(tensor.numpy()[0]) for tensor in tensors if tensor is not None] == list(range(count))
    if maps.exists():
        assert maps.read_text().count(str(tmp_path.resolve() / "w.bin")) == 1


@pytest.mark.filterwarnings("ignore:.*was kept")
def test_a_model_with_many_data_files_keeps_none_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_MOST_OPEN", 2)
    for count in (2, 3):
        model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> g () => (float[4] w0) { }')
        for index in range(count):
            weight = onnx.numpy_helper.from_array(np.full(4, index, np.float32), f"w{index}")
            (tmp_path / f"w{index}").write_bytes(weight.raw_data)
            weight.ClearField("raw_data")
            weight.data_location = onnx.TensorProto.EXTERNAL
            weight.external_data.add(key="location", value=f"w{index}")
            model.graph.initializer.append(weight)
        onnx.save_model(model, tmp_path / "m.onnx")
        loaded = castsmith.load(tmp_path / "m.onnx")
        tensors = [value.const_value for value in loaded.graph.initializers.values()]
        assert {tensor.range.file.stays_open for tensor in tensors if isinstance(tensor, StoredTensor)} == {count == 2}
        assert [int(tensor.numpy()[0]) for tensor in tensors if tensor is not None] == list(range(count))
        castsmith.save(loaded, tmp_path / "n.onnx")
        castsmith.save(loaded, tmp_path / "m.onnx", external_data="w0")
        again = castsmith.load(tmp_path / "m.onnx").graph.initializers.values()
        assert [int(value.const_value.numpy()[0]) for value in again if value.const_value] == list(range(count))


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
    with open(tmp_path / "out", "wb") as file:
        tensor.tofile(file)
    assert (tmp_path / "out").read_bytes() == np.arange(4, dtype=np.float32).tobytes() == tensor.tobytes()
    assert tensor.numpy().tolist() == np.asarray(tensor).tolist() == [0, 1, 2, 3]
    assert np.asarray(tensor, np.float64).dtype == np.float64
    empty = model.graph.initializers["e"].const_value
    assert empty is not None
    assert empty.numpy().shape == (0,)


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


FLOAT = onnx_ir.DataType.FLOAT


@pytest.mark.parametrize(
    ("location", "offset", "length", "dtype", "fault"),
    [
        ("w.bin", None, None, FLOAT, ""),
        ("w.bin", 4, 16, FLOAT, ""),
        ("w.bin", 5, None, FLOAT, "needs 16 bytes at offset 5 of 'w.bin', which has only 20."),
        ("w.bin", -1, None, FLOAT, "needs 16 bytes at offset -1 of 'w.bin', which has only 20."),
        ("w.bin", 0, 12, FLOAT, "needs 16 bytes for its shape, but its entry says 12."),
        ("w.bin", 0, 0, FLOAT, "needs 16 bytes for its shape, but its entry says 0."),
        ("w.bin", 0, None, onnx_ir.DataType.STRING, "keeps strings in a data file, which ONNX does not allow."),
        ("absent", 0, None, FLOAT, "keeps its data in 'absent', which is missing."),
        ("../w.bin", 0, None, FLOAT, "keeps its data in '../w.bin', which is outside the model's folder."),
    ],
)
def test_a_tensor_of_onnx_ir_is_checked_when_it_is_read(
    location: str, offset: int | None, length: int | None, dtype: onnx_ir.DataType, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "w.bin").write_bytes(_DATA[:20])
    shape = onnx_ir.Shape([4])
    tensor = onnx_ir.ExternalTensor(location, offset, length, dtype, shape=shape, name="w", base_dir=tmp_path)
    if fault:
        with pytest.raises(ModelError) as raised:
            range_of(tensor)
        assert str(raised.value) == f"tensor 'w' {fault}"
        return
    place = range_of(tensor)
    assert place is not None
    assert (place.offset, place.length, bytes(place.bytes)) == (offset or 0, 16, _DATA[offset or 0 :][:16])
    assert range_of(onnx_ir.tensor([1.0])) is None


def test_a_tensor_that_knows_no_folder_may_be_anywhere(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "w.bin"
    path.write_bytes(_DATA[:20])
    for location in (f"{path}", os.path.relpath(path)):
        tensor = onnx_ir.ExternalTensor(location, 4, 16, FLOAT, shape=onnx_ir.Shape([4]), name="w")
        assert opened(tensor).tobytes() == _DATA[4:20]


def test_bytes_in_a_file_as_another_type_and_shape(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "w.bin"
    path.write_bytes(_DATA[:20])
    place, half = Range(DataFile(path), 4, 4), onnx_ir.DataType.FLOAT16
    for before in ([1], [], [1, 1]):
        shape = onnx_ir.Shape(before)
        outside = onnx_ir.ExternalTensor("w.bin", 4, 4, FLOAT, shape=shape, name="w", doc_string="d", base_dir=tmp_path)
        for tensor in (outside, opened(outside), FileTensor(place, onnx_ir.Tensor(np.zeros(before, "f4"), name="w"))):
            kept = relabelled(tensor, onnx_ir.DataType.INT32)
            assert kept is not None
            assert (kept.dtype, kept.shape.numpy(), kept.name) == (onnx_ir.DataType.INT32, tuple(before), "w")
            assert kept.tobytes() == _DATA[4:8]
            for dtype, after in ((FLOAT, []), (FLOAT, [1]), (half, [2]), (half, [1, 2, 1])):
                other = relabelled(tensor, dtype, onnx_ir.Shape(after))
                assert other is not None
                assert (other.dtype, other.shape.numpy(), other.numpy().shape) == (dtype, tuple(after), tuple(after))
                assert (other.tobytes(), other.numpy().tobytes()) == (_DATA[4:8], _DATA[4:8])
    assert relabelled(onnx_ir.tensor([1.0]), half, onnx_ir.Shape([2])) is None


def test_a_location_is_below_the_folder_and_no_path_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "w").touch()
    target = Path(os.path.realpath(tmp_path / "w"))
    for location, expected in (
        ("w", target),
        ("./w", target),
        ("below/../w", target),
        (f"{target}", None),
        ("../w", None),
        ("w\0", None),
    ):
        assert stored.inside(tmp_path, location) == expected, location
