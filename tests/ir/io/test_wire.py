"""Weights of any size: left where they are when a model is loaded, copied as ranges and in pieces when it is saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx_ir import DataType

import castsmith
from castsmith.analysis.bounds import reading, sums
from castsmith.cli.main import main
from castsmith.ir.errors import ModelError
from castsmith.ir.io import loading, saving, streaming as pieces
from castsmith.ir.io.loading import from_proto
from castsmith.ir.io.stored import DataFile, FileTensor, StoredTensor
from castsmith.ir.io.wire import skeleton
from castsmith.ir.walks import all_tensors

RNG = np.random.default_rng(0)
TYPES = [DataType.FLOAT, DataType.FLOAT16, DataType.FLOAT8E4M3FN, DataType.INT4, DataType.UINT2, DataType.BOOL]


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_LARGE_FILE", 0)
    monkeypatch.setattr(loading, "_LARGE_WEIGHT", 16)
    monkeypatch.setattr(saving, "_LARGE", 16)
    monkeypatch.setattr(pieces, "PIECE", 64)


def weights_model(weights: dict[str, onnx.TensorProto]) -> onnx.ModelProto:
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"], name=name) for name in weights]
    outputs = [
        helper.make_tensor_value_info(f"{name}_out", weight.data_type, list(weight.dims))
        for name, weight in weights.items()
    ]
    graph = helper.make_graph(nodes, "g", [], outputs, list(weights.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


def weight(dtype: DataType, count: int, name: str = "w") -> onnx.TensorProto:
    codes = RNG.integers(0, 2, count) if dtype.bitwidth < 8 or dtype == DataType.BOOL else RNG.integers(-9, 9, count)
    return onnx_ir.to_proto(onnx_ir.tensor(codes.astype(dtype.numpy()), dtype=dtype, name=name))


def whole(path: Path) -> onnx.ModelProto:
    """The model with all its data inside."""
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        tensor.ClearField("data_location")  # which onnx sets to DEFAULT when it takes data in
    return proto


def array_of(model: onnx_ir.Model, name: str = "w") -> NDArray[np.generic]:
    tensor = model.graph.initializers[name].const_value
    assert tensor is not None
    return tensor.numpy()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [1, 63, 64, 65, 1001])
def test_weights_in_the_file_come_through(tmp_path: Path, dtype: DataType, count: int) -> None:
    proto = weights_model({"w": weight(dtype, count), "v": weight(DataType.INT64, 50, "v")})
    (tmp_path / "a.onnx").write_bytes(proto.SerializeToString())
    model = castsmith.load(tmp_path / "a.onnx")
    for path, data in ((tmp_path / "b.onnx", None), (tmp_path / "c.onnx", "c.data")):
        castsmith.save(model, path, external_data=data)
        assert whole(path) == proto
        onnx.checker.check_model(path, full_check=True)
    castsmith.save(castsmith.load(tmp_path / "c.onnx"), tmp_path / "d.onnx")
    assert whole(tmp_path / "d.onnx") == proto


def test_a_large_weight_is_a_range_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(weights_model({"w": weight(DataType.FLOAT, 100)}).SerializeToString())
    model = castsmith.load(path)
    tensor = model.graph.initializers["w"].const_value
    assert tensor is not None
    assert isinstance(tensor, FileTensor)
    before = tensor.numpy().copy()
    castsmith.save(castsmith.load(path), path)
    path.unlink()
    np.testing.assert_array_equal(array_of(model), before)
    castsmith.save(model, path)
    np.testing.assert_array_equal(array_of(castsmith.load(path)), before)


@pytest.mark.parametrize("data", [None, "w.data"])
def test_a_float8_weight_is_lowered_where_it_lies(tmp_path: Path, data: str | None) -> None:
    path = tmp_path / "a.onnx"
    castsmith.save(
        onnx_ir.from_proto(weights_model({"w": weight(DataType.FLOAT8E4M3FN, 2000)})), path, external_data=data
    )
    model = castsmith.load(path)
    before = array_of(model).tobytes()
    lowered = castsmith.optimize(model, target="onnxruntime-android").model
    tensor = lowered.graph.initializers["w"].const_value
    assert tensor is not None
    assert tensor.dtype == DataType.UINT8
    assert tensor.tobytes() == before
    assert isinstance(tensor, FileTensor if data is None else StoredTensor)


_PRODUCTS = """<ir_version: 10, opset_import: ["": 21]> g (float[23,24] x) => (float[23,24] y) {
    n = LayerNormalization (x, scale)
    a = MatMul (n, w)
    b = Gemm <transB = 1> (n, v)
    c = Gemm (a, u, b)
    d = MatMul (t, c)
    z = Tanh (d)
    e = MatMul (z, s)
    y = Mul (e, p)
}"""


@pytest.mark.parametrize("largest", [0, 1 << 22])
def test_convert_reads_weights_in_a_data_file_in_parts_and_seldom(
    largest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its bounds, those of products with it, what rounding loses, and when it is written; not for the result's."""
    path, model = tmp_path / "a.onnx", onnx.parser.parse_model(_PRODUCTS)
    shapes = {"w": (24, 24), "v": (24, 24), "u": (24, 24), "t": (23, 23), "s": (24, 24), "p": (23, 24)}
    arrays = {name: RNG.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["scale"] = RNG.normal(1, 0.1, 24).astype(np.float32)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    expected = castsmith.convert(model, to="float16").model
    castsmith.save(model, path, external_data="a.data")

    def whole_weight(tensor: StoredTensor) -> NDArray[np.generic]:
        raise AssertionError(tensor.name)

    def counted(file: DataFile, offset: int, length: int) -> memoryview:
        times[offset : offset + length] += file.path.name == "a.data"
        return view(file, offset, length)

    view, times = DataFile.view, np.zeros((tmp_path / "a.data").stat().st_size, int)
    loaded = castsmith.load(path)
    monkeypatch.setattr(reading, "_READ", 30)
    monkeypatch.setattr(sums, "_LARGE", largest)
    monkeypatch.setattr(StoredTensor, "numpy", whole_weight)
    monkeypatch.setattr(DataFile, "view", counted)
    castsmith.save(castsmith.convert(loaded, to="float16").model, tmp_path / "b.onnx")
    monkeypatch.undo()
    for tensor in filter(None, (value.const_value for value in castsmith.load(path).graph.initializers.values())):
        if isinstance(tensor, StoredTensor):
            start = tensor.offset or 0
            assert set(times[start : start + tensor.nbytes]) <= {3, 4, 5}, tensor.name
            times[start : start + tensor.nbytes] = 0
    assert not times.any()
    made = castsmith.load(tmp_path / "b.onnx").graph.initializers
    for name, value in expected.graph.initializers.items():
        tensor, wanted = made[name].const_value, value.const_value
        assert tensor is not None
        assert wanted is not None
        assert (tensor.dtype, tensor.tobytes()) == (wanted.dtype, wanted.tobytes())
    assert {name: value.dtype for name, value in made.items() if name in shapes} == dict.fromkeys(
        shapes, DataType.FLOAT16
    )


def test_onnx_ir_can_save_what_was_loaded(tmp_path: Path) -> None:
    proto = weights_model({"w": weight(DataType.FLOAT, 100)})
    path = tmp_path / "a.onnx"
    path.write_bytes(proto.SerializeToString())
    onnx_ir.save(castsmith.load(path), path)
    assert onnx.load(path).graph.initializer == proto.graph.initializer


@pytest.mark.parametrize("cut", range(1, 60, 3))
def test_a_large_file_that_is_cut_short(tmp_path: Path, cut: int) -> None:
    entire = weights_model({"w": weight(DataType.FLOAT, 100)}).SerializeToString()
    path = tmp_path / "a.onnx"
    path.write_bytes(entire[: len(entire) * cut // 60])
    with pytest.raises(ModelError, match=r"a\.onnx"):
        castsmith.load(path)


def test_random_bytes_are_no_model(tmp_path: Path) -> None:
    for seed in range(200):
        (tmp_path / "a.onnx").write_bytes(np.random.default_rng(seed).bytes(64))
        with pytest.raises(ModelError):
            castsmith.load(tmp_path / "a.onnx")


@pytest.mark.parametrize("field", ["0a056162", "0d0000", "09000000", "0b", "0c", "0e", "0f", "08", "0880", "0a"])
def test_a_skeleton_of_a_field_that_is_cut_or_of_no_kind(field: str) -> None:
    with pytest.raises(DecodeError, match="truncated or malformed"):
        skeleton(memoryview(bytes.fromhex(field)), "a.onnx", 16)


@pytest.mark.parametrize("stated", [False, True])
def test_a_skeleton_keeps_all_but_the_weights(stated: bool) -> None:
    """onnx states that the data is in the tensor when it has loaded it from a data file."""
    proto = weights_model({"w": weight(DataType.FLOAT, 100), "v": weight(DataType.FLOAT, 2, "v")})
    if stated:
        proto.graph.initializer[0].data_location = TensorProto.DEFAULT
    bones = onnx.ModelProto.FromString(skeleton(memoryview(proto.SerializeToString()), "a.onnx", 16))
    large, small = bones.graph.initializer
    assert large.data_location == TensorProto.EXTERNAL
    assert small == proto.graph.initializer[1]
    large.CopyFrom(proto.graph.initializer[0])
    assert bones == proto


def nested_model() -> onnx.ModelProto:
    """Large constants in nodes, in a branch, as an initializer of a branch, and in a function."""

    def constant(name: str) -> onnx.NodeProto:
        return helper.make_node("Constant", [], [name], name, value=weight(DataType.FLOAT, 100, f"{name}_data"))

    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [100]) for name in ("t", "e", "y")]
    neg = helper.make_node("Neg", ["v"], ["e"], "neg")
    then = helper.make_graph([constant("t")], "then", [], ports[:1])
    other = helper.make_graph([neg], "else", [], ports[1:2], [weight(DataType.FLOAT, 100, "v")])
    nodes = [
        constant("c"),
        helper.make_node("If", ["b"], ["i"], "if", then_branch=then, else_branch=other),
        helper.make_node("f", ["i"], ["r"], "call", domain="own"),
        helper.make_node("Sum", ["c", "r"], ["y"], "sum"),
    ]
    opsets = [helper.make_opsetid("", 25)]
    body = [constant("k"), helper.make_node("Add", ["a", "k"], ["s"], "add")]
    function = helper.make_function("own", "f", ["a"], ["s"], body, opsets)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("b", TensorProto.BOOL, [])], ports[2:])
    opsets.append(helper.make_opsetid("own", 1))
    return helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=13)


def test_large_constants_in_nodes_branches_and_functions_stay_where_they_are(tmp_path: Path) -> None:
    proto, path = nested_model(), tmp_path / "a.onnx"
    path.write_bytes(proto.SerializeToString())
    model = castsmith.load(path)
    large = [tensor for tensor in all_tensors(model) if tensor.nbytes > 16]
    assert len(large) == 4
    assert all(isinstance(tensor, FileTensor) for tensor in large)
    castsmith.save(model, path)
    assert onnx_ir.to_proto(castsmith.load(path)) == onnx_ir.to_proto(from_proto(proto))
    onnx.checker.check_model(path, full_check=True)


def test_external_data_of_a_node_goes_along(tmp_path: Path) -> None:
    array = RNG.random(1000).astype(np.float32)
    (tmp_path / "old").mkdir()
    array.tofile(tmp_path / "old" / "k.bin")
    stored = TensorProto(name="k", data_type=TensorProto.FLOAT, dims=[1000], data_location=TensorProto.EXTERNAL)
    stored.external_data.add(key="location", value="k.bin")
    node = helper.make_node("Constant", [], ["c"], "c", value=stored)
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1000])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]), tmp_path / "old" / "a.onnx")
    model = castsmith.load(tmp_path / "old" / "a.onnx")
    castsmith.save(model, tmp_path / "b.onnx")
    castsmith.save(model, tmp_path / "old" / "c.onnx", reference_data=True)
    assert sorted(path.name for path in (tmp_path / "old").iterdir()) == ["a.onnx", "c.onnx", "k.bin"]
    for path in (tmp_path / "b.onnx", tmp_path / "old" / "c.onnx"):
        (constant,) = castsmith.load(path).graph
        assert constant.attributes["value"].as_tensor().tobytes() == array.tobytes()
    assert model.graph.node(0).attributes["value"].as_tensor().tobytes() == array.tobytes()


def test_more_constants_in_nodes_than_a_file_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "_INLINE_LIMIT", 1000)
    with pytest.raises(ModelError, match="node attributes hold 1200 bytes of constants"):
        castsmith.save(from_proto(nested_model()), tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


def test_tensors_are_aligned_in_data_files(tmp_path: Path) -> None:
    """Those that are worth mapping begin at 64 KiB; small ones do not multiply the size of the file."""
    sizes = {"a": 3, "b": 300, "c": 2000, "d": 5, "e": 1 << 18, "f": 4000, "g": 1 << 18}
    tensors = {name: numpy_helper.from_array(RNG.random(n).astype(np.float32), name) for name, n in sizes.items()}
    castsmith.save(from_proto(weights_model(tensors)), tmp_path / "m.onnx", external_data="m.data")
    stored = castsmith.load(tmp_path / "m.onnx").graph.initializers
    offsets = {n: v.const_value.offset for n, v in stored.items() if isinstance(v.const_value, onnx_ir.ExternalTensor)}
    end = 65536 + (1 << 20)
    assert offsets == {"b": 0, "c": 1216, "e": 65536, "f": end, "g": end + 65536}


def test_data_files_are_split(tmp_path: Path) -> None:
    tensors = {f"w{i}": numpy_helper.from_array(np.full(1024, i, np.float32), f"w{i}") for i in range(5)}
    model = from_proto(weights_model(tensors))
    castsmith.save(model, tmp_path / "m.onnx", external_data="m.onnx.data", shard_bytes=10_000)
    assert sorted(file.name for file in tmp_path.glob("*.data*")) == [
        f"m.onnx.data-0000{i}-of-00003" for i in (1, 2, 3)
    ]
    for index in range(5):
        assert set(array_of(castsmith.load(tmp_path / "m.onnx"), f"w{index}").tolist()) == {index}
    castsmith.save(model, tmp_path / "m.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]


def test_weights_can_be_referenced_in_place(tmp_path: Path) -> None:
    proto = weights_model({"w": weight(DataType.FLOAT, 1000), "v": weight(DataType.FLOAT, 700, "v")})
    castsmith.save(from_proto(proto), tmp_path / "a.onnx", external_data="weights")
    castsmith.save(castsmith.load(tmp_path / "a.onnx"), tmp_path / "b.onnx", reference_data=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.onnx", "b.onnx", "weights"]
    assert whole(tmp_path / "b.onnx") == proto
    (tmp_path / "elsewhere").mkdir()
    castsmith.save(castsmith.load(tmp_path / "a.onnx"), tmp_path / "elsewhere" / "c.onnx", reference_data=True)
    assert whole(tmp_path / "elsewhere" / "c.onnx") == proto


def test_weights_of_a_folder_below_are_referenced_there(tmp_path: Path) -> None:
    proto = weights_model({"w": weight(DataType.FLOAT, 1000)})
    (tmp_path / "below").mkdir()
    castsmith.save(from_proto(proto), tmp_path / "below" / "a.onnx", external_data="weights")
    castsmith.save(castsmith.load(tmp_path / "below" / "a.onnx"), tmp_path / "b.onnx", reference_data=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["b.onnx", "below"]
    assert whole(tmp_path / "b.onnx") == proto


def test_data_that_a_replaced_model_left_goes(tmp_path: Path) -> None:
    proto = weights_model({"w": weight(DataType.FLOAT, 1000)})
    model = from_proto(proto)
    (tmp_path / "m.onnx.data.7").write_bytes(b"somebody else's")
    for _ in range(4):
        castsmith.save(model, tmp_path / "m.onnx", external_data="m.onnx.data")
        assert whole(tmp_path / "m.onnx") == proto
        assert len(list(tmp_path.iterdir())) == 3
    loaded = castsmith.load(tmp_path / "m.onnx")
    castsmith.save(loaded, tmp_path / "m.onnx")
    castsmith.save(loaded, tmp_path / "m.onnx")
    assert whole(tmp_path / "m.onnx") == proto


def test_optimizing_a_model_over_itself_leaves_one_data_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    castsmith.save(from_proto(weights_model({"w": weight(DataType.FLOAT, 2000)})), path, external_data="m.onnx.data")
    before = array_of(castsmith.load(path)).copy()
    for options in ([], [], ["--link-data"], []):
        assert main(["optimize", str(path), "-o", str(path), *options]) == 0
        assert len(list(tmp_path.iterdir())) == 2
        np.testing.assert_array_equal(array_of(castsmith.load(path)), before)


def test_a_computed_tensor_is_worked_out_in_pieces(tmp_path: Path) -> None:
    proto = weights_model({"w": weight(DataType.FLOAT, 1000)})
    castsmith.save(from_proto(proto), tmp_path / "a.onnx", external_data="weights")
    model = castsmith.load(tmp_path / "a.onnx")
    value = model.graph.initializers["w"]
    assert value.const_value is not None
    expected, sizes = array_of(model).astype(np.float16), list[int]()

    def halve(array: NDArray[np.generic]) -> NDArray[np.float16]:
        sizes.append(array.size)
        return array.astype(np.float16)

    value.const_value = pieces.computed(value.const_value, DataType.FLOAT16, halve, "w")
    value.dtype = model.graph.outputs[0].dtype = DataType.FLOAT16
    for name, data in (("b.onnx", None), ("c.onnx", "c.data")):
        castsmith.save(model, tmp_path / name, external_data=data)
        np.testing.assert_array_equal(array_of(castsmith.load(tmp_path / name)), expected)
    assert max(sizes) == 64
    np.testing.assert_array_equal(value.const_value.numpy(), expected)


def test_a_link_that_leads_out_after_loading_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"s" * 4000)
    folder = tmp_path / "model"
    folder.mkdir()
    proto = weights_model({"w": weight(DataType.FLOAT, 1000)})
    castsmith.save(from_proto(proto), folder / "a.onnx", external_data="weights")
    model, of_onnx_ir = castsmith.load(folder / "a.onnx"), onnx_ir.load(folder / "a.onnx")
    (folder / "weights").unlink()
    (folder / "weights").symlink_to(tmp_path / "secret")
    castsmith.save(model, folder / "b.onnx")
    assert whole(folder / "b.onnx") == proto
    with pytest.raises(ModelError, match="outside the model's folder"):
        castsmith.save(of_onnx_ir, folder / "c.onnx")


def test_what_is_new_joins_the_weights_that_are_external(tmp_path: Path) -> None:
    proto = weights_model({"w": weight(DataType.FLOAT, 1000), "v": weight(DataType.FLOAT, 700, "v")})
    castsmith.save(from_proto(proto), tmp_path / "a.onnx", external_data="weights")
    model = castsmith.load(tmp_path / "a.onnx")
    model.graph.initializers["v"].const_value = onnx_ir.tensor(np.ones(700, np.float32), name="v")
    castsmith.save(model, tmp_path / "b.onnx", reference_data=True)
    stored = castsmith.load(tmp_path / "b.onnx").graph.initializers
    places = {n: v.const_value.location for n, v in stored.items() if isinstance(v.const_value, onnx_ir.ExternalTensor)}
    assert places == {"w": "weights", "v": "b.onnx.data"}
    assert set(array_of(castsmith.load(tmp_path / "b.onnx"), "v").tolist()) == {1.0}
