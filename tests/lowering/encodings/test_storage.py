"""Weights of 4 and 2 bits packed: every code, every remainder of the size, on targets that shift bytes and others."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import onnxruntime
import pytest
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.io.loading import load
from castsmith.ir.io.saving import save
from castsmith.ir.io.stored import StoredTensor
from castsmith.ir.records import Effect, Site
from castsmith.ir.walks import all_nodes
from castsmith.lowering.builder import new_constants
from castsmith.lowering.encodings.storage import (
    as_codes,
    can_be_packed,
    inferred_declared,
    mentioned_types,
    packed_tensor,
    recorded_retyping,
    retyped_attributes,
    unpacked,
)
from castsmith.lowering.float8.apply import STORE_AS_CODES
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.registry import OptionError
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import element_type, type_name
from castsmith.targets.target import Target, load_target
from tests.evaluator import evaluate
from tests.lowering.float8.test_lower import model_of
from tests.lowering.runtime import LEVELS, Array, run, session
from tests.sampling import check_all, sampled

CPU = load_target("onnxruntime-cpu")
PACKABLE = [DataType.INT4, DataType.UINT4, DataType.FLOAT4E2M1, DataType.INT2, DataType.UINT2]
WITHOUT = replace(CPU, name="old", lacks=CPU.lacks | {*PACKABLE})
NO_SHIFTS = replace(WITHOUT, unknown=("kernels",))


def weight_of(dtype: DataType, shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape))
    codes = np.random.default_rng(0).integers(0, 2 ** element_type(dtype).bits, count).astype(np.uint8)
    return codes.view(dtype.numpy()).reshape(shape)


def decoding_model(weight: Array) -> onnx_ir.Model:
    """y = the weight in float, used twice, once in a branch."""
    body = """agraph (bool p) => (float[A,B] y) { v = Cast <to = 1> (w)
        y = If (p) <then_branch = yes () => (float[A,B] t) { t = Identity (v) },
                    else_branch = no () => (float[A,B] e) { u = Transpose (w) f = Cast <to = 1> (u) e = Transpose (f) }>
    }"""
    return onnx_ir.from_proto(onnx_ir.to_proto(model_of(body, 28, w=weight)))


SHAPES = [(60, 100), (41, 61), (41, 62), (41, 67)]


@pytest.mark.parametrize(
    ("dtype", "target", "shape"),
    sampled(
        "packed weights",
        itertools.product(PACKABLE, [WITHOUT, NO_SHIFTS], SHAPES),
        8,
        cover=lambda case: [case[0], (case[1].name, case[1].unknown), case[2]],
    ),
)
def test_packed_weights(dtype: DataType, target: object, shape: tuple[int, int]):
    weight = weight_of(dtype, shape)
    result = optimize(decoding_model(weight), target=target)  # pyright: ignore[reportArgumentType]
    assert not result.diagnostics
    assert "w" not in result.model.graph.initializers
    proto = onnx_ir.to_proto(result.model)
    onnx.checker.check_model(proto, full_check=True)
    first, op_type = result.model.graph[0], result.model.graph[0].op_type
    assert (first.name, first.outputs[0].name) == (f"castsmith_{op_type}", f"castsmith_{op_type}_output")
    for level in LEVELS:
        for p in (True, False):
            (y,) = run(session(proto, level), {"p": np.array(p)})
            assert y.tobytes() == cast(weight, DataType.FLOAT).tobytes()
    again = optimize(result.model, target=target)  # pyright: ignore[reportArgumentType]
    assert not [rewrite for rewrite in again.rewrites if rewrite.pass_name == "lower-float8"]


@pytest.mark.parametrize("dtype", PACKABLE)
def test_the_file_grows_by_less_than_one_percent(dtype: DataType, tmp_path: Path):
    weight = weight_of(dtype, (2000, 1001))
    save(decoding_model(weight), tmp_path / "model.onnx", external_data="model.data")
    before = sum(path.stat().st_size for path in tmp_path.iterdir())
    sizes: dict[str, int] = {}
    for storage in ("packed", "byte"):
        result = optimize(tmp_path / "model.onnx", target=WITHOUT, storage=storage)
        folder = tmp_path / storage
        folder.mkdir()
        save(result.model, folder / "model.onnx", external_data="model.data")
        sizes[storage] = sum(path.stat().st_size for path in folder.iterdir())
        opened = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
        (y,) = run(opened, {"p": np.array(False)})
        assert y.tobytes() == cast(weight, DataType.FLOAT).tobytes()
    assert sizes["packed"] < before * 1.01 < sizes["byte"]


def test_small_weights_and_the_interface_are_not_packed():
    body = "agraph (float[8] x) => (float[8] y, int4[80,80] w) { v = Cast <to = 1> (s) y = Add (v, x) }"
    model = model_of(body, 28, s=weight_of(DataType.INT4, (8,)))
    weight = onnx_ir.tensor(weight_of(DataType.INT4, (80, 80)), name="w")
    output = model.graph.outputs[1]
    output.const_value = weight
    model.graph.register_initializer(output)
    result = optimize(model, target=WITHOUT, passes=["lower-float8"])
    assert not result.diagnostics
    assert {name: value.dtype for name, value in result.model.graph.initializers.items() if name in "sw"} == {
        "s": DataType.UINT8, "w": DataType.UINT8,
    }  # fmt: skip


@pytest.mark.parametrize("name", [type_name(dtype) for dtype in PACKABLE])
def test_functions(name: str):
    dtype = DataType[name.upper()]
    weight = weight_of(dtype, (41, 61))
    result = optimize(decoding_model(weight), target=WITHOUT, emit_functions=True)
    proto = onnx_ir.to_proto(result.model)
    assert proto.functions
    (y,) = run(session(proto), {"p": np.array(True)})
    assert y.tobytes() == cast(weight, DataType.FLOAT).tobytes()


def test_an_unknown_storage_is_refused():
    model = model_of("agraph (float[N] x) => (float[N] y) { y = Identity (x) }")
    with pytest.raises(OptionError, match=r"unknown storage 'bits'; expected 'packed' or 'byte'"):
        optimize(model, target=CPU, storage="bits")  # pyright: ignore[reportArgumentType]


def test_inferred_shapes_keep_the_names_of_dimensions() -> None:
    model = model_of(
        "agraph (float[N,3] x) => (y) { r = Relu (x) t = Transpose (r) c = Concat <axis = 0> (r, x) y = Add (r, x) }"
    )
    inference = infer_element_types(model, PromotionRules())
    values = {value.name: value for node in model.graph for value in node.outputs}
    with inferred_declared(model, inference.types, shapes=Shapes(model, inference)):
        assert {name: str(value.shape) for name, value in values.items()} == {
            "r": "[N,3]",
            "t": "[3,N]",
            "c": "[None,3]",
            "y": "[N,3]",
        }
    assert all(value.shape is None for value in values.values())


def test_what_a_block_retypes_stays_and_the_rest_is_undeclared_again() -> None:
    """Types and shapes that the block declares go after it, unless they were replaced in it."""
    text = "g (float[2,3] x) => (y) { a = Neg (x) b = Neg (a) c = Neg (b) y = Neg (c) }"
    model = onnx_ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}'))
    a, b, c, y = (node.outputs[0] for node in model.graph)
    inference = infer_element_types(model, PromotionRules())
    with inferred_declared(model, inference.types, shapes=Shapes(model, inference)):
        assert [(value.dtype, value.shape) for value in (a, b, c, y)] == [(DataType.FLOAT, [2, 3])] * 4
        b.type, c.shape = onnx_ir.TensorType(DataType.UINT8), onnx_ir.Shape([6])
    assert [(value.dtype, value.shape) for value in (a, b, c, y)] == [
        (None, None), (DataType.UINT8, None), (None, [6]), (None, None)
    ]  # fmt: skip


def test_a_block_declares_only_tensors_of_a_known_type_and_what_was_not_declared() -> None:
    body = """agraph (float[2,3] x) => (y) { a = com.acme.Any (x) b = Neg (a) c = Clip (x, , high)
        s = SequenceConstruct (x, c) e = SequenceAt (s, zero) i = Identity (x) y = Relu (e) }"""
    model = model_of(body, 21, high=np.array(1, np.float32), zero=np.array(0, np.int64))
    x, values = model.graph.inputs[0], {node.outputs[0].name: node.outputs[0] for node in model.graph}
    type_of_x, shape_of_x = x.type, x.shape
    inference = infer_element_types(model, PromotionRules())
    with inferred_declared(model, inference.types):
        assert (x.type, x.shape) == (type_of_x, shape_of_x)
        assert x.type is type_of_x
        assert x.shape is shape_of_x
        assert {name: value.type for name, value in values.items()} == {
            **dict.fromkeys("cey", onnx_ir.TensorType(DataType.FLOAT)),
            "s": onnx_ir.SequenceType(onnx_ir.TensorType(DataType.FLOAT)),
            **dict.fromkeys("abi"),
        }
        assert all(value.shape is None for value in values.values())
    with inferred_declared(model, inference.types, shapes=Shapes(model, inference), tensors=[values["i"]]):
        assert x.shape is shape_of_x
        assert (values["i"].type, values["a"].type) == (onnx_ir.TensorType(DataType.FLOAT), None)
    assert all(value.type is None and value.shape is None for value in values.values())


def test_codes_of_a_tensor_are_its_bits_a_byte_each(tmp_path: Path) -> None:
    for name, numbers, codes in (
        ("INT4", [-8, -1, 0, 7, 3], [8, 15, 0, 7, 3]),
        ("UINT2", [0, 1, 2, 3], [0, 1, 2, 3]),
        ("INT2", [-2, -1, 0, 1], [2, 3, 0, 1]),
        ("FLOAT4E2M1", [0.5, -0.5, -6], [1, 9, 15]),
        ("FLOAT8E4M3FN", [1, -1, 448, -0.0], [0x38, 0xB8, 0x7E, 0x80]),
    ):
        array = np.array(numbers, np.float32).astype(DataType[name].numpy())
        tensor = onnx_ir.Tensor(array, DataType[name], name="w", doc_string="told")
        made = as_codes(tensor)
        assert (made.dtype, made.name, made.doc_string) == (DataType.UINT8, "w", "told")
        assert made.numpy().tolist() == codes, name
    high_bits = onnx_ir.Tensor(np.array([0xFF, 0x12], np.uint8).view(DataType.INT4.numpy()), DataType.INT4)
    assert as_codes(high_bits).numpy().tolist() == [15, 2]
    weights = {"w": np.tile(np.arange(256, dtype=np.uint8), 8).view(DataType.FLOAT8E4M3FN.numpy())}
    weights["n"] = np.tile(np.arange(16, dtype=np.uint8), 256).view(DataType.UINT4.numpy())
    body = "agraph (float x) => (float8e4m3fn[2048] y, uint4[4096] z) { y = Identity (w) z = Identity (n) }"
    save(model_of(body, 21, "", **weights), tmp_path / "m.onnx", external_data="m.data")
    for value in load(tmp_path / "m.onnx").graph.initializers.values():
        assert value.const_value is not None
        stored = as_codes(value.const_value)
        assert isinstance(stored, StoredTensor) == (value.name == "w")  # the bytes stay in the file
        assert (stored.dtype, stored.numpy().tolist()) == (
            (DataType.UINT8, [*range(256)] * 8) if value.name == "w" else (DataType.UINT8, [*range(16)] * 256)
        )
        if value.name == "n":
            packed = packed_tensor(value.const_value)
            assert isinstance(packed, StoredTensor)
            assert (packed.dtype, packed.name) == (DataType.UINT8, "n_packed")
            assert packed.numpy().tolist() == [[16 * (code + 1) + code] for code in range(0, 16, 2)] * 256


RETYPED: list[tuple[str, str, Effect | None]] = [
    # the value, what becomes of its type and its tensor, what is recorded
    ("x", "UINT8", Effect.INTERFACE),
    ("y", "UINT8", Effect.INTERFACE),
    ("w", "UINT8 UINT8", Effect.BIT_EXACT),
    ("d", "UINT8 UINT8", Effect.INTERFACE),
    ("f", "UINT8 FLOAT", Effect.BIT_EXACT),
    ("m", "UINT8", None),
    ("z", "UINT8", None),  # an output of a subgraph
    ("k", "UINT8 UINT8", None),
]


def test_a_retyped_value_is_recorded_where_a_user_sees_it() -> None:
    body = """agraph (int4[2] x, int4[2] d, bool p) => (int4[2] y) { k = Constant <value = int4[2] {1, 2}> ()
        m = Identity (x) y = If (p) <then_branch = t () => (int4[2] z) { z = Identity (w) },
                                     else_branch = e () => (int4[2] u) { u = Identity (f) }> }"""
    for name, shown, effect in RETYPED:
        model = model_of(body, 21, w=weight_of(DataType.INT4, (2,)), f=np.ones(2, np.float32))
        values = {value.name: value for node in all_nodes(model) for value in (*node.inputs, *node.outputs) if value}
        values |= {value.name: value for value in model.graph.inputs}
        values["d"].const_value = onnx_ir.tensor(weight_of(DataType.INT4, (2,)), name="d")
        model.graph.register_initializer(values["d"])
        values["k"].const_value = onnx_ir.tensor(weight_of(DataType.INT4, (2,)), name="k")
        value = values[name]
        records = recorded_retyping(
            model, value, (DataType.INT4,), DataType.UINT8, as_codes, "p", STORE_AS_CODES, "because"
        )
        types = [value.dtype, *([] if value.const_value is None else [value.const_value.dtype])]
        assert " ".join(dtype.name for dtype in types if dtype) == shown, name
        assert [record.effect for record in records] == ([] if effect is None else [effect]), name
        for record in records:
            told = record.pass_name, record.rule, record.site, record.reason
            assert told == ("p", "store-as-codes", Site("agraph", name), "because")
            before, after = (str(item) for item in (*record.removed, *record.made))
            assert ("int4" in before or name == "f", "uint8" in after) == (True, True)


def test_attributes_that_name_a_type_or_hold_a_tensor_of_it_are_retyped() -> None:
    body = """agraph (float[2] x) => (y, c, r, n) { y = Cast <to = 22, saturate = 1> (x) c = Cast <to = 1> (x)
        k = Constant <value = int4[2] {47}> () f = Constant <value = float[1] {1}> () r = local.F (x)
        n = Neg (x) }"""
    more = '<domain: "local", opset_import: ["" : 21]> F <to, t> (x) => (made, told) { '
    more += "made = Cast <to: int = @to> (x) told = Constant <value: tensor = @t> () }"
    model = model_of(body, 21, more)
    texts = dict[str, list[str]]()
    for node in all_nodes(model):
        attributes = retyped_attributes(node, (DataType.INT4,), DataType.UINT8, as_codes)
        assert [attribute.name for attribute in attributes] == [*node.attributes]
        texts[f"{node.op_type} {node.outputs[0].name}"] = [
            "ref" if attribute.is_ref()
            else f"{attribute.as_tensor().dtype.name} {attribute.as_tensor().numpy().tolist()}"
            if attribute.type == onnx_ir.AttributeType.TENSOR
            else str(attribute.value)
            for attribute in attributes
        ]  # fmt: skip
    assert texts == {
        "Cast y": ["2", "1"],
        "Cast c": ["1"],
        "Cast made": ["ref"],
        "Constant told": ["ref"],
        "Constant k": ["UINT8 [15, 2]"],
        "Constant f": ["FLOAT [1.0]"],
        "F r": [],
        "Neg n": [],
    }


MENTIONED: list[tuple[str, str, set[str]]] = [
    ("agraph (float[2] x) => (float[2] y) { y = Neg (x) }", "", {"FLOAT"}),
    ("agraph (float[2] x) => (y) { y = Cast <to = 22> (x) }", "", {"FLOAT", "INT4"}),
    ("agraph (float[2] x) => (float[2] y) { k = Constant <value = int4[1] {1}> () y = Neg (x) }", "",
     {"FLOAT", "INT4"}),
    ("agraph (float[2] x) => (float[2] y) <uint4[1] w = {1}> { y = Neg (x) }", "", {"FLOAT", "UINT4"}),
    ("agraph (float[2] x) => (y) { y = local.F <to = 1> (x) }",
     '<domain: "local", opset_import: ["" : 21]> F <to> (x) => (y) { y = Cast <to: int = @to> (x) }',
     {"FLOAT", "UNDEFINED"}),
]  # fmt: skip


def require_mentioned(body: str, more: str, expected: set[str]) -> None:
    assert {dtype.name for dtype in mentioned_types(model_of(body, 21, more))} == expected


def test_the_types_that_a_model_mentions() -> None:
    check_all(require_mentioned, MENTIONED)


def test_what_can_be_packed() -> None:
    """4 bits save half a byte of each element and 2 bits three quarters: 2048 of these, or 1366, save a KiB."""
    body = "agraph (int4[2048] i) => (int4[2048] o) { y = Identity (w) o = Identity (i) }"
    for dtype, size, packs in (
        ("INT4", 2048, True), ("INT4", 2047, False), ("UINT2", 1366, True), ("UINT2", 1364, False),
        ("INT8", 4096, False), ("FLOAT8E5M2", 4096, False), ("FLOAT4E2M1", 2048, True),
    ):  # fmt: skip
        model = model_of(body, 21, w=weight_of(DataType[dtype], (size,)))
        assert can_be_packed(model.graph.initializers["w"]) == packs, (dtype, size)
    model = model_of(body, 21, w=weight_of(DataType.INT4, (2048,)))
    weight, port = model.graph.initializers["w"], model.graph.inputs[0]
    assert not can_be_packed(port)  # without a tensor
    port.const_value = weight.const_value
    model.graph.register_initializer(port)
    constant = next(iter(model.graph)).outputs[0]
    constant.const_value = weight.const_value
    assert [can_be_packed(value) for value in (weight, port, constant)] == [True, False, False]
    model.graph.outputs.append(weight)
    assert not can_be_packed(weight)


def test_packed_bytes_have_the_first_code_in_the_lowest_bits() -> None:
    for dtype, codes, packed in (
        (DataType.UINT4, [1, 2, 3, 4, 15], [0x21, 0x43, 0x0F]),
        (DataType.INT4, [1, -1, 3], [0xF1, 0x03]),
        (DataType.UINT2, [1, 2, 3, 0, 3], [0b00111001, 0b11]),
    ):
        array = np.array(codes, np.int8).astype(dtype.numpy())
        tensors: list[onnx_ir.TensorProtocol] = [onnx_ir.Tensor(array, dtype, name="w", doc_string="told")]
        content = np.array(packed, np.uint8)
        tensors.append(onnx_ir.PackedTensor(content, dtype, shape=[len(codes)], name="w", doc_string="told"))
        for tensor in tensors:
            made = packed_tensor(tensor)
            assert (made.dtype, made.name, made.doc_string) == (DataType.UINT8, "w_packed", "told")
            assert made.numpy().tolist() == [[byte] for byte in packed]


SHIFTS, SLICED = ["BitShift", "BitwiseAnd"], ["Reshape", "Slice", "Reshape"]
UNPACKED: list[tuple[Target, int, DataType, tuple[int, ...], list[str]]] = [
    (CPU, 18, DataType.UINT4, (2, 3), [*SHIFTS, "Reshape"]),
    (CPU, 18, DataType.INT4, (5,), [*SHIFTS, *SLICED]),
    (CPU, 18, DataType.UINT2, (4, 3), [*SHIFTS, "Reshape"]),
    (CPU, 18, DataType.UINT2, (2, 5), [*SHIFTS, *SLICED]),
    (CPU, 17, DataType.UINT4, (2, 3), ["Cast", "Gather", "Reshape"]),  # no BitwiseAnd
    (CPU, 10, DataType.UINT4, (2, 3), ["Cast", "Gather", "Reshape"]),  # no BitShift either
    (NO_SHIFTS, 18, DataType.UINT2, (4, 3), ["Cast", "Gather", "Reshape"]),
    (load_target("tensorrt-11"), 18, DataType.UINT4, (5,), ["Cast", "Gather", *SLICED]),
]


def require_unpacking(target: Target, opset: int, dtype: DataType, shape: tuple[int, ...], expected: list[str]) -> None:
    packed = onnx_ir.Value(name="p", type=onnx_ir.TensorType(DataType.UINT8), shape=onnx_ir.Shape([3, 1]))
    constants = list[onnx_ir.Value]()
    nodes, codes = unpacked(packed, dtype, onnx_ir.Shape(shape), target, opset, new_constants(constants))
    assert [node.op_type for node in nodes] == expected
    assert codes is nodes[-1].outputs[0]
    assert [node.outputs[0].shape for node in nodes] == [*[None] * (len(nodes) - 1), list(shape)]
    names = {"codes_of_bytes"} if "Gather" in expected else {"shifts", "constant"}
    assert {each.name for each in constants} == names | {"shape"} | ({"flat", "end"} if "Slice" in expected else set())
    for constant in constants:
        assert constant.dtype == (DataType.UINT8 if constant.name in names else DataType.INT64)
    for number, value in enumerate((*constants, *(node.outputs[0] for node in nodes))):
        value.name = f"v{number}"
    graph = onnx_ir.Graph(
        [packed], [codes], nodes=nodes, initializers=constants, opset_imports={"": max(opset, 13)}, name="g"
    )
    (numbers,) = evaluate(onnx_ir.Model(graph, ir_version=10), {"p": np.array([[0x21], [0xF3], [0x84]], np.uint8)})
    each_code = [1, 2, 3, 15, 4, 8] if dtype.bitwidth == 4 else [1, 0, 2, 0, 3, 0, 3, 3, 0, 1, 0, 2]
    assert numbers.tolist() == np.array(each_code[: int(np.prod(shape))]).reshape(shape).tolist()


def test_the_nodes_that_unpack() -> None:
    check_all(require_unpacking, UNPACKED)
