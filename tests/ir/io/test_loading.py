"""Files that are loaded, and files that are refused in one sentence that names the file."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import castsmith
from castsmith.ir.errors import ModelError
from castsmith.ir.io import loading
from castsmith.ir.io.loading import (
    as_model,
    from_bytes,
    load,
    load_flawed,
    load_structure,
    model_in_memory,
    own_model,
    structure,
    unloadable,
)
from castsmith.ir.io.stored import identity
from castsmith.ir.records import Flaw, FlawKind
from castsmith.numerics.errors import ArgumentTypeError


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
        ("w.bin", -1, None, "has the invalid offset '-1'; expected a number of bytes"),
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


@pytest.fixture
def _small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights above 16 bytes are left in the file."""
    monkeypatch.setattr(loading, "_LARGE_FILE", 0)
    monkeypatch.setattr(loading, "_LARGE_WEIGHT", 16)


OWN: list[tuple[str, list[int], bytes, str]] = [
    ("FLOAT", [8], bytes(32), ""),
    ("FLOAT", [8], bytes(28), "needs 32 bytes for its shape, but holds 28."),
    ("FLOAT", [8], bytes(36), "needs 32 bytes for its shape, but holds 36."),
    ("STRING", [8], bytes(32), "keeps strings as raw data, which ONNX does not allow."),
    ("FLOAT6E2M3", [23], bytes(17) + b"\x03", ""),  # 138 of 144 bits
    ("FLOAT6E2M3", [23], bytes(17) + b"\x04", "holds codes that FLOAT6E2M3 does not have."),
    ("FLOAT6E2M3", [24], bytes(17) + b"\xff", ""),
]


@pytest.mark.usefixtures("_small_files_are_large")
@pytest.mark.parametrize(("name", "dims", "data", "told"), OWN)
def test_weights_that_are_left_in_the_file(name: str, dims: list[int], data: bytes, told: str, tmp_path: Path) -> None:
    if name not in onnx_ir.DataType.__members__:
        pytest.skip("this onnx_ir has no float6")
    dtype = onnx_ir.DataType[name].value
    proto = external_model("w.bin")
    proto.graph.initializer[0].CopyFrom(TensorProto(name="w", data_type=dtype, dims=dims, raw_data=data))
    proto.graph.output[0].type.tensor_type.elem_type = dtype
    path = write(tmp_path, proto, None)
    if told:
        with pytest.raises(ModelError) as caught:
            castsmith.load(path)
        assert str(caught.value) == f"{path}: tensor 'w' {told}"
        return
    tensor = castsmith.load(path).graph.initializers["w"].const_value
    assert tensor is not None
    with (tmp_path / "copy").open("w+b") as file:
        tensor.tofile(file)  # type: ignore[attr-defined]
    assert (tmp_path / "copy").read_bytes() == data


@pytest.mark.usefixtures("_small_files_are_large")
def test_a_file_with_large_weights_is_shown_by_their_places(tmp_path: Path) -> None:
    """Own weights have no location; those in other files keep theirs."""
    proto = external_model("w.bin")
    proto.graph.initializer.append(numpy_helper.from_array(np.arange(8, dtype=np.float32), "own"))
    path = write(tmp_path, proto)
    shown = unloadable(str(path))
    assert shown is not None
    other, own = shown.graph.initializer
    assert [entry.value for entry in other.external_data if entry.key == "location"] == ["w.bin"]
    entries = {entry.key: entry.value for entry in own.external_data}
    data, start = path.read_bytes(), int(entries["offset"])
    assert entries["location"] == ""
    assert data[start : start + int(entries["length"])] == np.arange(8, dtype=np.float32).tobytes()


def test_the_structure_of_a_model_in_memory_lacks_large_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_LARGE_WEIGHT", 16)
    model = onnx_ir.from_onnx_text("""<ir_version: 10, opset_import: ["": 21]> g (float[5] given) => (float[5] y)
        <float[5] given = {1, 2, 3, 4, 5}, float[5] large = {1, 2, 3, 4, 5}, float[4] small = {1, 2, 3, 4}> {
        a = Add (given, large) y = Add (a, small) }""")
    proto = structure(model)
    assert [tensor.name for tensor in proto.graph.initializer] == ["small"]
    assert [value.name for value in proto.graph.input] == ["given", "large"]
    assert [*model.graph.initializers] == ["given", "large", "small"]
    assert len(model.graph.inputs) == 1
    whole = onnx_ir.to_proto(model)
    assert structure(whole) == whole
    assert structure(whole.SerializeToString()) == whole


class Holder:
    def __init__(self, model: Any, proto: object = None) -> None:
        self.model, self.model_proto = model, proto


def test_what_counts_as_a_model(tmp_path: Path) -> None:
    model = onnx_ir.from_onnx_text('<ir_version: 10, opset_import: ["": 21]> g (float x) => (float y) { y = Neg (x) }')
    proto = onnx_ir.to_proto(model)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    held = Holder(model)
    assert model_in_memory(model) is model_in_memory(held) is as_model(held) is model
    assert model_in_memory(proto) is model_in_memory(Holder(proto)) is model_in_memory(3) is None
    read: list[Any] = [
        tmp_path / "m.onnx",
        str(tmp_path / "m.onnx"),
        proto,
        proto.SerializeToString(),
        Holder(None, proto),
    ]
    for each in read:
        assert onnx_ir.to_proto(as_model(each)) == proto
    odd: Any
    for odd in (3, None, Holder(3), Holder(None, 3)):
        with pytest.raises(
            ArgumentTypeError, match=r"^a model must be a path, an onnx_ir\.Model, a ModelProto, its bytes"
        ):
            as_model(odd)
    assert own_model(model, in_place=True) is own_model(held, in_place=True) is model
    assert own_model(model) is not model
    with pytest.raises(ArgumentTypeError, match=r"^load\(\) reads a file: pass its path, not "):
        castsmith.load(proto)  # type: ignore[arg-type]


NEG = "y = Neg (x)"
WITHOUT: list[tuple[str, str, int, FlawKind, int]] = [
    ("ir_version", "the model has no IR version", 21, FlawKind.UNVERSIONED, 3),
    ("opset_import", "the model imports no operator set, so its operators have no meaning", 1, FlawKind.UNIMPORTED, 10),
]


@pytest.mark.parametrize(("field", "fault", "opset", "kind", "ir_version"), WITHOUT)
def test_a_model_without_versions_is_read_for_its_flaws(
    field: str, fault: str, opset: int, kind: FlawKind, ir_version: int
) -> None:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g (float x) => (float y) {{ {NEG} }}')
    proto.ClearField(field)  # type: ignore[arg-type]
    data, flaws = proto.SerializeToString(), list[Flaw]()
    model = from_bytes(data, "m", flaws)
    assert [(flaw.site.graph, flaw.text, flaw.kinds) for flaw in flaws] == [("g", fault, {kind})]
    assert (model.opset_imports[""], model.ir_version) == (opset, ir_version)
    assert proto.SerializeToString() == data
    with pytest.raises(ModelError, match=r"^m: .*(has no IR version|imports no operator set.*have no meaning)\.$"):
        from_bytes(data, "m")


def test_what_is_wrong_with_a_file_that_is_read_once(tmp_path: Path) -> None:
    """A flaw is told once, and the fault for which reading ends is a flaw only if there is no other."""
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Add (x, w) }'
    proto = onnx.parser.parse_model(text)
    path, flaws = write(tmp_path, proto), list[Flaw]()
    for _ in range(2):
        load_flawed(path, flaws)
        assert [flaw.text for flaw in flaws] == ["it reads 'w', which the model does not define"]
    missing, flaws = external_model("no.bin"), list[Flaw]()
    path = write(tmp_path, missing)
    with pytest.raises(ModelError, match="which is missing"):
        load_flawed(path, flaws)
    assert [(flaw.site.graph, flaw.text) for flaw in flaws] == [
        ("g", "tensor 'w' keeps its data in 'no.bin', which is missing")
    ]
    assert load_structure(path).graph.initializers["w"].const_value is not None
    cycle = onnx.parser.parse_model(text.replace("y = Add (x, w)", "y = Neg (z) z = Neg (y)"))
    flaws = list[Flaw]()
    with pytest.raises(ModelError, match="form a cycle"):
        load_flawed(write(tmp_path, cycle), flaws)
    assert [flaw.kinds for flaw in flaws] == [{FlawKind.CYCLE}]


def test_a_file_that_is_replaced_while_a_fault_is_found_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole, asked = tmp_path / "m.onnx", external_model("w.bin").SerializeToString(), list[int]()
    path.write_bytes(whole[:-1])
    (tmp_path / "w.bin").write_bytes(b"\0" * 16)

    def replaced(file: Path) -> tuple[int, ...]:
        asked.append(len(asked))
        if len(asked) == 2:
            path.write_bytes(whole)
        return identity(file)

    monkeypatch.setattr(loading, "identity", replaced)
    assert load(path).graph.name == "g"
    path.write_bytes(whole[:-1])
    asked[:] = range(2)
    with pytest.raises(ModelError, match="truncated"):
        load(path)
    assert len(asked) == 4, "a file that stays as it is, is read once"


@pytest.mark.parametrize(("brackets", "closing"), ["()", "[]", "{}", "<>"])
def test_text_that_is_nested_deeply(brackets: str, closing: str, tmp_path: Path) -> None:
    """Brackets in comments and texts do not count, nor do those that were closed."""
    path = tmp_path / "m.onnxtxt"
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) {'
    for depth, told in ((99, False), (100, True)):  # the body of the graph is one more
        path.write_text(head + brackets * depth)
        with pytest.raises(ModelError) as caught:
            castsmith.load(path)
        assert ("brackets are nested more than 100 levels deep" in str(caught.value)) is told
    flat = f"# {brackets * 200}\ny = Neg (x) }} # {closing}\n# {(brackets + closing) * 200} => "
    path.write_text(head + flat)
    assert len(castsmith.load(path).graph) == 1
