"""A load and a save change nothing, and a save that fails leaves the old file whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_ir.testing import assert_onnx_proto_equal

import castsmith
from castsmith.ir.errors import ModelError
from castsmith.ir.io import saving
from tests.ir.io.test_loading import external_model, write

MODELS = sorted((Path(__file__).parents[3] / "models").glob("*.onnx"))


def everything() -> onnx.ModelProto:
    """Functions, subgraphs, a custom domain with unknown attributes, string data, metadata everywhere."""
    text = """<ir_version: 10, opset_import: ["": 21, "local": 1, "vendor": 7], producer_name: "p",
      metadata_props: ["a": "value", "b": "other"]>
    g (float[N, batch] x, bool c) => (float[N, batch] y, float[2] z)
      <string[2] s = {"a", "b"}, float[2] w = {1, -0.0}> {
      a = local.twice <alpha = 2> (x)
      b = vendor.Strange <mode = "x", weights = float16[1] {15360}, deep = [1, 2]> (a, s)
      y = If (c) <
        then_branch = t () => (float[N, M] p) <float[1] k = {3}> { p = Mul (a, k) },
        else_branch = e () => (float[N, M] q) { q = Identity (b) }
      >
      z = Identity (w)
    }
    <domain: "local", opset_import: ["": 21]>
    twice <alpha> (v) => (r) { t = Constant <value_float: float = @alpha> () r = Mul (v, t) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.doc_string = "what it is for"
    node = proto.graph.node[0]
    node.doc_string = "why"
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'layer']")
    proto.graph.metadata_props.add(key="graph", value="too")
    del proto.training_info[:]
    return proto


def test_load_and_save_change_nothing(tmp_path: Path) -> None:
    proto = everything()
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    castsmith.save(castsmith.load(path), tmp_path / "n.onnx")
    assert_onnx_proto_equal(onnx.load(tmp_path / "n.onnx"), proto)


def _drop_dangling_value_info(graph: onnx.GraphProto) -> None:
    """A quantizer leaves types of values that are gone; they say nothing about the model, and onnx_ir drops them."""
    named = {name for node in graph.node for name in (*node.input, *node.output)}
    named.update(tensor.name for tensor in graph.initializer)
    kept = [value for value in graph.value_info if value.name in named]
    del graph.value_info[:]
    graph.value_info.extend(kept)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_real_models_come_through_unchanged(path: Path, tmp_path: Path) -> None:
    castsmith.save(castsmith.load(path), tmp_path / "n.onnx")
    expected = onnx.load(path)
    _drop_dangling_value_info(expected.graph)
    assert_onnx_proto_equal(onnx.load(tmp_path / "n.onnx"), expected)


def test_external_data_stays_external(tmp_path: Path) -> None:
    data = np.arange(4, dtype=np.float32)
    source = write(tmp_path / "a", external_model("w.bin"), data.tobytes())
    (tmp_path / "b").mkdir()
    target = tmp_path / "b" / "n.onnx"
    castsmith.save(castsmith.load(source), target)
    assert (tmp_path / "b" / "n.onnx.data").read_bytes() == data.tobytes()
    np.testing.assert_array_equal(numpy_helper.to_array(onnx.load(target).graph.initializer[0]), data)


def test_saving_over_its_own_source_keeps_the_data(tmp_path: Path) -> None:
    data = np.arange(4, dtype=np.float32)
    path = write(tmp_path, external_model("w.bin"), data.tobytes())
    for _ in range(3):
        castsmith.save(castsmith.load(path), path)
        np.testing.assert_array_equal(castsmith.load(path).graph.initializers["w"].const_value.numpy(), data)  # type: ignore[union-attr]


def test_weights_move_out_on_request(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.arange(1024, dtype=np.float32), "w")
    node = helper.make_node("Identity", ["w"], ["y"])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1024])
    proto = helper.make_model(helper.make_graph([node], "g", [], [output], [weight]))
    model = onnx_ir.from_proto(proto)
    castsmith.save(model, tmp_path / "m.onnx", external_data="weights.bin")
    assert (tmp_path / "weights.bin").stat().st_size == 4096
    assert not isinstance(model.graph.initializers["w"].const_value, onnx_ir.ExternalTensor)
    with pytest.raises(ModelError, match="outside the model's folder"):
        castsmith.save(model, tmp_path / "m.onnx", external_data="../weights.bin")


def test_a_failing_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(everything().SerializeToString())
    before, model = path.read_bytes(), castsmith.load(path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving.os, "fsync", fail)
    with pytest.raises(ModelError, match="No space left"):
        castsmith.save(model, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be written"):
        castsmith.save(onnx_ir.from_proto(everything()), tmp_path / "absent" / "m.onnx")


def test_a_saved_file_is_recognised_by_openvino(tmp_path: Path) -> None:
    """It looks at the first three fields, which are to be others: so the graph stands before two opset imports."""
    openvino = pytest.importorskip("openvino")
    text = '<ir_version: 7, opset_import: ["": 12, "com.microsoft": 1]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
    castsmith.save(onnx_ir.from_proto(onnx.parser.parse_model(text)), tmp_path / "m.onnx")
    assert openvino.Core().read_model(tmp_path / "m.onnx").get_parameters()


def test_a_proto_a_path_and_a_model_are_saved_alike(tmp_path: Path) -> None:
    proto = everything()
    source = tmp_path / "source.onnx"
    onnx.save_model(proto, source)
    model = castsmith.load(source)
    held = (Program(model), OldProgram(proto), castsmith.Result(model), castsmith.ConvertResult(model))
    forms: list[Any] = [proto, source, str(source), model, *held]
    for index, form in enumerate(forms):
        castsmith.save(form, tmp_path / f"{index}.onnx")
    castsmith.Result(model).save(tmp_path / f"{len(forms)}.onnx")
    files = {(tmp_path / f"{index}.onnx").read_bytes() for index in range(len(forms) + 1)}
    assert len(files) == 1


class Program:
    """As torch.onnx.ONNXProgram holds a model."""

    def __init__(self, model: onnx_ir.Model) -> None:
        self.model = model

    @property
    def model_proto(self) -> onnx.ModelProto:
        raise AssertionError("the model need not be serialized")


class OldProgram:
    """As the ONNXProgram of older releases of torch, whose model is no onnx_ir.Model."""

    model = "of another package"

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.model_proto = proto


CASTS = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4] x) => (float16[4] y) { a = Cast <to = 1> (x) b = Cast <to = 10> (a) y = Neg (b) }"""


def test_a_program_of_torch_is_a_model_everywhere() -> None:
    model = onnx_ir.from_onnx_text(CASTS)
    before = onnx_ir.to_onnx_text(model)
    for program in (Program(model), OldProgram(onnx_ir.to_proto(model)), castsmith.Result(model)):
        given: Any = program
        result = castsmith.optimize(given)
        assert [node.op_type for node in result.model.graph] == ["Neg"]
        assert castsmith.convert(given, to="float").model.graph.outputs[0].dtype == onnx_ir.DataType.FLOAT16
        assert castsmith.check(given) == castsmith.check(model)
        assert castsmith.verify(given, result).equal
        assert castsmith.diff(given, result)
        assert not castsmith.diff(given, model)
        assert set(castsmith.bounds(given)) == set(castsmith.bounds(model))
        assert onnx_ir.to_onnx_text(model) == before
    program = Program(model)
    assert castsmith.optimize(program, in_place=True).model is model


def test_the_proto_of_a_result_has_all_its_weights(tmp_path: Path) -> None:
    weights = np.arange(40000, dtype=np.float32)
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
            "g",
            [onnx.helper.make_tensor_value_info("x", 1, [40000])],
            [onnx.helper.make_tensor_value_info("y", 1, [40000])],
            [onnx.numpy_helper.from_array(weights, "w")],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 21)],
        ir_version=10,
    )
    result = castsmith.optimize(proto)
    result.save(tmp_path / "m.onnx", external_data="m.data")
    assert (tmp_path / "m.data").stat().st_size >= weights.nbytes
    again = castsmith.optimize(tmp_path / "m.onnx").proto
    assert not again.graph.initializer[0].external_data
    assert onnx.numpy_helper.to_array(again.graph.initializer[0]).tobytes() == weights.tobytes()
    onnx.checker.check_model(again, full_check=True)
    assert again.SerializeToString() == result.proto.SerializeToString() != b""
    with pytest.raises(castsmith.ArgumentTypeError, match="path must be"):
        result.save(3)  # pyright: ignore[reportArgumentType]


def test_the_bytes_of_a_model_are_a_model_everywhere(tmp_path: Path) -> None:
    data = everything().SerializeToString()
    assert (
        castsmith.optimize(data).proto.SerializeToString() == castsmith.optimize(everything()).proto.SerializeToString()
    )
    assert castsmith.check(data) == castsmith.check(everything())
    assert not castsmith.diff(data, everything())
    castsmith.save(data, tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").is_file()
    with pytest.raises(castsmith.ModelError, match=r"^the bytes: not an ONNX model, or truncated\.$"):
        castsmith.check(b"hello")


def weights_of(**sizes: int) -> onnx_ir.Model:
    """A model with weights of so many bytes."""
    weights = [numpy_helper.from_array(np.arange(size).astype(np.uint8), name) for name, size in sizes.items()]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in sizes]
    outputs = [helper.make_tensor_value_info(node.output[0], TensorProto.UINT8, [None]) for node in nodes]
    graph = helper.make_graph(nodes, "g", [], outputs, weights)
    opsets = [helper.make_opsetid("", 21)]
    return onnx_ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def places_of(path: Path) -> dict[str, dict[str, str]]:
    """Where the initializers of the file are; nothing for those in it."""
    graph = onnx.load(path, load_external_data=False).graph
    return {tensor.name: {entry.key: entry.value for entry in tensor.external_data} for tensor in graph.initializer}


@pytest.mark.parametrize("name", ["g", ""])
def test_a_model_in_memory_is_called_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = name or "the model"
    model = weights_of(w=100)
    model.graph.name = name
    monkeypatch.setattr(saving, "_INLINE_LIMIT", 99)
    with pytest.raises(ModelError, match=f"^{called}: the model has 100 bytes of weights, more than the 2 GiB of an"):
        saving.whole_proto(model)
    model.graph[0].resize_inputs(2)
    with pytest.raises(ModelError, match=rf"^{called}: .*Identity has 2 inputs, expected 1"):
        saving.reloaded(model)


def test_text_is_neither_counted_nor_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx_ir.from_proto(everything())
    monkeypatch.setattr(saving, "_LARGE", 1)
    monkeypatch.setattr(saving, "_INLINE_LIMIT", 14)  # w 8, k 4, weights 2
    assert list(saving.whole_proto(model).graph.initializer[0].string_data) == [b"a", b"b"]
    before = {value.name: value.const_value for value in model.graph.initializers.values()}
    after = {value.name: value.const_value for value in saving.reloaded(model).graph.initializers.values()}
    assert after["w"] is before["w"]
    assert after["s"] is not None
    assert after["s"] is not before["s"]
    assert after["s"].numpy().tolist() == [b"a", b"b"]
    monkeypatch.setattr(saving, "_INLINE_LIMIT", 13)
    with pytest.raises(ModelError, match=r"^g: the model has 14 bytes of weights"):
        saving.whole_proto(model)


def test_weights_in_data_files_do_not_count_for_the_size_of_the_model_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    castsmith.save(weights_of(w=8000, v=900), tmp_path / "a.onnx", external_data="a.data")
    model = castsmith.load(tmp_path / "a.onnx")
    held = onnx_ir.Value(name="u", const_value=onnx_ir.tensor(np.zeros(2000, np.uint8), name="u"))
    model.graph.register_initializer(held)
    for limit, moved in ((2900, {"w"}), (2899, {"w", "u"})):
        monkeypatch.setattr(saving, "_INLINE_LIMIT", limit)
        castsmith.save(model, tmp_path / "b.onnx")
        assert {name for name, place in places_of(tmp_path / "b.onnx").items() if place} == moved
        for file in ("b.onnx", "b.onnx.data"):
            (tmp_path / file).unlink()


def test_a_referenced_weight_keeps_its_place(tmp_path: Path) -> None:
    """As the model names it where that leads to the file, through a link too."""
    (tmp_path / "in").mkdir()
    castsmith.save(weights_of(w=8000, v=2000), tmp_path / "in" / "a.onnx", external_data="a.data")
    before = places_of(tmp_path / "in" / "a.onnx")
    assert len({place["offset"] for place in before.values()}) == 2
    castsmith.save(castsmith.load(tmp_path / "in" / "a.onnx"), tmp_path / "b.onnx", reference_data=True)
    after = places_of(tmp_path / "b.onnx")
    assert {place["location"] for place in after.values()} == {"in/a.data"}
    assert [place["offset"] for place in after.values()] == [place["offset"] for place in before.values()]
    (tmp_path / "in" / "link.data").symlink_to("a.data")
    proto = onnx.load(tmp_path / "in" / "a.onnx", load_external_data=False)
    for tensor in proto.graph.initializer:
        tensor.external_data[0].value = "link.data"
    (tmp_path / "in" / "l.onnx").write_bytes(proto.SerializeToString())
    castsmith.save(castsmith.load(tmp_path / "in" / "l.onnx"), tmp_path / "in" / "m.onnx", reference_data=True)
    assert {place["location"] for place in places_of(tmp_path / "in" / "m.onnx").values()} == {"link.data"}


def test_a_data_file_that_was_replaced_is_not_referenced(tmp_path: Path) -> None:
    path, data = tmp_path / "a.onnx", tmp_path / "a.data"
    castsmith.save(weights_of(w=8000), path, external_data="a.data")
    model, content = castsmith.load(path), data.read_bytes()
    (tmp_path / "new").write_bytes(bytes(8000))
    (tmp_path / "new").replace(data)
    castsmith.save(model, tmp_path / "b.onnx", reference_data=True)
    assert places_of(tmp_path / "b.onnx")["w"]["location"] == "b.onnx.data"
    assert (tmp_path / "b.onnx.data").read_bytes() == content


def test_the_name_of_a_data_file_is_text(tmp_path: Path) -> None:
    wrong: Any = 3
    for name in (wrong, ""):
        with pytest.raises(castsmith.CastsmithError, match="external"):
            castsmith.save(weights_of(w=10), tmp_path / "m.onnx", external_data=name)
    assert not [*tmp_path.iterdir()]


def test_tensors_in_attributes_keep_their_names(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(2000, np.uint8), "own name")
    node = helper.make_node("Constant", [], ["y"], value=tensor)
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", TensorProto.UINT8, [2000])])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(proto, tmp_path / "a.onnx", save_as_external_data=True, convert_attribute=True, size_threshold=0)
    castsmith.save(castsmith.load(tmp_path / "a.onnx"), tmp_path / "b.onnx")
    (saved,) = onnx.load(tmp_path / "b.onnx", load_external_data=False).graph.node
    assert saved.attribute[0].t.name == "own name"
    assert saved.attribute[0].t.data_location == TensorProto.EXTERNAL


@pytest.mark.parametrize("wrong", [3, None, bytearray(b"model.onnx"), []])
def test_a_model_or_path_of_another_type_is_said(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(castsmith.ArgumentTypeError, match="a model must be"):
        castsmith.save(wrong, tmp_path / "out.onnx")
    with pytest.raises(castsmith.ArgumentTypeError, match="path must be"):
        castsmith.save(everything(), wrong)
    assert not list(tmp_path.iterdir())
