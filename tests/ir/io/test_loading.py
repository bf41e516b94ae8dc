"""Files that are loaded, and files that are refused in one sentence that names the file."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import castsmith
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import unloadable


def external_model(location: str, *, offset: int = 0, length: int | None = None) -> onnx.ModelProto:
    """A model of one weight of 16 bytes that is kept in `location`."""
    weight = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            weight.external_data.add(key=key, value=str(value))
    node = helper.make_node("Identity", ["w"], ["y"])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    graph = helper.make_graph([node], "g", [], [output], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def write(folder: Path, proto: onnx.ModelProto, data: bytes | None = b"\0" * 16) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    if data is not None:
        (folder / "w.bin").write_bytes(data)
    return path


def test_external_data_is_memory_mapped(tmp_path: Path) -> None:
    data = np.arange(4, dtype=np.float32).tobytes()
    model = castsmith.load(write(tmp_path, external_model("w.bin"), data))
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, onnx_ir.ExternalTensor)
    np.testing.assert_array_equal(tensor.numpy(), np.arange(4, dtype=np.float32))


@pytest.mark.parametrize(
    ("location", "offset", "length", "sentence"),
    [
        ("../w.bin", 0, None, "outside the model's folder"),
        ("sub/../../w.bin", 0, None, "outside the model's folder"),
        ("/etc/hostname", 0, None, "outside the model's folder"),
        ("link.bin", 0, None, "outside the model's folder"),
        ("absent.bin", 0, None, "which is missing"),
        ("w.bin", 4, None, "which has only 16"),
        ("w.bin", 0, 12, "its entry says 12"),
    ],
)
def test_external_data_that_cannot_be_trusted(
    tmp_path: Path, location: str, offset: int, length: int | None, sentence: str
) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 16)
    folder = tmp_path / "model"
    path = write(folder, external_model(location, offset=offset, length=length))
    os.symlink(tmp_path / "w.bin", folder / "link.bin")
    with pytest.raises(ModelError, match=r"m\.onnx") as caught:
        castsmith.load(path)
    assert sentence in str(caught.value)


def truncated(path: Path) -> None:
    whole = external_model("w.bin").SerializeToString()
    path.write_bytes(whole[: len(whole) // 2])


BROKEN: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(missing_ok=True),
    "a folder": lambda path: path.mkdir(),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("this is not a model\n"),
    "random": lambda path: path.write_bytes(np.random.default_rng(1).bytes(4096)),
    "truncated": truncated,
    "without a graph": lambda path: path.write_bytes(onnx.ModelProto(ir_version=10).SerializeToString()),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_no_model(tmp_path: Path, how: str) -> None:
    path = tmp_path / "m.onnx"
    BROKEN[how](path)
    with pytest.raises(ModelError, match=r"m\.onnx") as caught:
        castsmith.load(path)
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize("suffix", ["json", "onnxtxt", "textproto", "prototxt"])
def test_what_is_no_model_in_a_format_of_text(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m.{suffix}"
    for content in ("this is not a model\n", "", "{", "\0\1\2"):
        path.write_text(content)
        problem = "not an ONNX model" if content else "empty, expected an ONNX model"
        with pytest.raises(ModelError, match=rf"m\.{suffix}: {problem}"):
            castsmith.load(path)


def test_a_shape_that_promises_more_than_there_is(tmp_path: Path) -> None:
    proto = external_model("w.bin")
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros(4, np.float32), "w"))
    proto.graph.initializer[0].dims[0] = 1 << 40
    with pytest.raises(ModelError, match="needs 4398046511104 bytes"):
        castsmith.load(write(tmp_path, proto, None))


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_pauses_while_a_model_is_read_and_changed(enabled: bool) -> None:
    def cast(to: int) -> onnx.ModelProto:
        text = f'<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (int8[2] y) {{ y = Cast <to = {to}> (x) }}'
        return onnx.parser.parse_model(text)

    states: list[bool] = []
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        castsmith.optimize(cast(3), progress=lambda _: states.append(gc.isenabled()))
        with pytest.raises(ModelError, match="is 99, which is not an ONNX element type"):
            castsmith.optimize(cast(99))
        assert gc.isenabled() is enabled
        assert states
        assert not any(states)
    finally:
        (gc.enable if before else gc.disable)()


def test_a_model_in_memory_whose_tensor_lacks_data_is_refused(tmp_path: Path) -> None:
    short = TensorProto(data_type=TensorProto.FLOAT, dims=[2, 3], name="w", raw_data=bytes(8))
    sparse = TensorProto(data_type=TensorProto.FLOAT, dims=[2, 3], name="w", float_data=[1.0])
    (tmp_path / "w.bin").write_bytes(bytes(8))
    shape = onnx_ir.Shape([2, 3])
    cases: list[tuple[onnx_ir.TensorProtocol, str]] = [
        (onnx_ir.serde.TensorProtoTensor(short), "needs 24 bytes for its shape, but holds 8"),
        (onnx_ir.serde.TensorProtoTensor(sparse), "needs 6 entries in float_data for its type and shape, but holds 1"),
    ]
    for location, length, problem in [
        ("no.bin", 24, "which is missing"),
        ("w.bin", 24, "which has only 8"),
        ("w.bin", 8, "its entry says 8"),
    ]:
        tensor = onnx_ir.ExternalTensor(
            location, 0, length, onnx_ir.DataType.FLOAT, shape=shape, name="w", base_dir=tmp_path
        )
        cases.append((tensor, problem))
    for tensor, problem in cases:
        w = onnx_ir.Value(name="w", const_value=tensor, type=onnx_ir.TensorType(tensor.dtype), shape=shape)
        node = onnx_ir.Node("", "Identity", [w])
        node.outputs[0].name = "y"
        graph = onnx_ir.Graph([], node.outputs, nodes=[node], initializers=[w], opset_imports={"": 21}, name="g")
        model = onnx_ir.Model(graph, ir_version=10)
        for command in (castsmith.optimize, castsmith.check, castsmith.bounds):
            with pytest.raises(ModelError, match=f"tensor 'w' .*{problem}"):
                command(model)


@pytest.mark.parametrize("nodes", ["", "y = Neg (x)"])
@pytest.mark.parametrize("inputs", ["", "float x"])
def test_a_model_that_cannot_be_loaded_is_shown_if_it_says_anything(tmp_path: Path, nodes: str, inputs: str) -> None:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 21]> g ({inputs}) => (y) {{ {nodes} }}')
    data = tmp_path / "a.onnx"
    data.write_bytes(proto.SerializeToString())
    for source in (str(data), data.read_bytes()):
        assert unloadable(source) == (proto if nodes or inputs else None)
