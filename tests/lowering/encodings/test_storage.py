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
from castsmith.ir.io.saving import save
from castsmith.lowering.encodings.storage import inferred_declared
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.registry import OptionError
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import element_type, type_name
from castsmith.targets.target import load_target
from tests.lowering.float8.test_lower import model_of
from tests.lowering.runtime import LEVELS, Array, run, session
from tests.sampling import sampled

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
