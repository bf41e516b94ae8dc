"""Transformers exported by PyTorch with float8 weights and activations, lowered and run: the bits of the model itself.

Those are what ONNX Runtime gives one node at a time, with `castsmith.cast` for every Cast: norms, softmax and sums have
the last bits of the runtime and of the processor on both sides.
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import onnxruntime
import pytest

import castsmith
from castsmith.numerics.types import FLOAT8_TYPES
from models.proof import Arrays, cases, first_difference
from tests.lowering.widen.in_float import evaluated
from tests.sampling import sampled

MODELS = Path(__file__).parents[3] / "models"
LEVELS = ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_LAYOUT", "ORT_ENABLE_ALL"]
SEQUENCES = ["table", "bitcast", "ladder"]
OUTPUTS = {"float8_encoder": "logits", "float8_transformer": "y"}


@cache
def expected(name: str) -> list[tuple[Arrays, Arrays]]:
    """Each set of inputs, with the outputs of the model itself."""
    model = castsmith.load(str(MODELS / f"{name}.onnx"))
    with np.errstate(all="ignore"):
        return [(x, {OUTPUTS[name]: evaluated(model, x)[0]}) for x, _ in cases(MODELS / f"{name}.npz")]


@cache
def lowered(name: str, target: str, sequence: str = "auto") -> bytes:
    passes = ["fold-constants", "simplify-casts", f"lower-float8{{sequence={sequence}}}", "legalize-version"]
    model = castsmith.optimize(str(MODELS / f"{name}.onnx"), target=target, passes=passes).model
    types = {value.dtype for node in model.graph for value in (*node.inputs, *node.outputs) if value is not None}
    assert not types & set(FLOAT8_TYPES)
    return onnx_ir.to_proto(model).SerializeToString()


@pytest.mark.parametrize(
    ("name", "sequence", "level"),
    sampled("transformers in ONNX Runtime", itertools.product(OUTPUTS, SEQUENCES, LEVELS), 24, cover=enumerate),
)
def test_onnxruntime_gives_the_bits_of_the_model(name: str, sequence: str, level: str):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    model = lowered(name, "onnxruntime-android", sequence)
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    for x, wanted in expected(name):
        found = {OUTPUTS[name]: np.asarray(session.run(None, x)[0])}
        assert first_difference(found, wanted) == ""


def test_openvino_gives_the_bits_of_the_model():
    """Of the one whose every result is rounded to float8, and far from a tie: a last bit more or less does not show.

    The transformers have norms and softmax, whose last bits differ between libraries and processors.
    """
    openvino: Any = pytest.importorskip("openvino", reason="needs the extra `peers`")
    core = openvino.Core()
    read = core.read_model(lowered("float8_qdq", "openvino-cpu"))
    compiled = core.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for x, wanted in cases(MODELS / "float8_qdq.npz"):
        if not any(np.isnan(array).any() for array in (*x.values(), *wanted.values())):
            found = {"logits": np.asarray(compiled(x)[0])}
            assert first_difference(found, wanted) == ""


def test_the_weights_and_the_activations_are_float8():
    model = castsmith.load(str(MODELS / "float8_encoder.onnx"))
    weights = [value for value in model.graph.initializers.values() if value.dtype in FLOAT8_TYPES]
    assert len(weights) == 10
    made = [node for node in model.graph if node.op_type == "Cast" and node.outputs[0].dtype in FLOAT8_TYPES]
    assert len(made) == 17
    products = [node for node in model.graph if node.op_type == "MatMul"]
    assert len(products) == 13


def test_a_file_of_float8_weights_and_activations_grows_by_less_than_1_percent(tmp_path: Path):
    model = castsmith.load(str(MODELS / "float8_encoder.onnx"))
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if value.dtype in FLOAT8_TYPES and tensor is not None and len(tensor.shape) == 2:
            # As large as a real one is at least, 20 MB; not run, so the shapes need not fit.
            tiled = np.tile(tensor.numpy(), (16, 8))
            value.const_value, value.shape = onnx_ir.tensor(tiled, name=value.name), onnx_ir.Shape(tiled.shape)
    assert 1 < growth(model, tmp_path) < 1.01


def test_a_file_of_float8_weights_alone_grows_by_less_than_1_percent(tmp_path: Path):
    x, constants, nodes = onnx_ir.val("x", onnx_ir.DataType.FLOAT, ["N", 512]), list[onnx_ir.Value](), []
    y = x
    for layer in range(4):
        array = np.random.default_rng(layer).normal(size=(512, 512)).astype(onnx_ir.DataType.FLOAT8E4M3FN.numpy())
        tensor = onnx_ir.tensor(array, name=f"w{layer}")
        constants.append(onnx_ir.val(f"w{layer}", tensor.dtype, array.shape, const_value=tensor))
        cast = onnx_ir.node("Cast", [constants[-1]], {"to": 1})
        nodes += [cast, onnx_ir.node("MatMul", [y, cast.outputs[0]])]
        y = nodes[-1].outputs[0]
    y.name, y.type, y.shape = "y", x.type, x.shape
    graph = onnx_ir.Graph([x], [y], nodes=nodes, initializers=constants, opset_imports={"": 21}, name="weights")
    assert 1 < growth(onnx_ir.Model(graph, ir_version=10), tmp_path) < 1.01


def growth(model: onnx_ir.Model, folder: Path) -> float:
    """The size of the lowered file to that of the original."""
    before, after = folder / "before.onnx", folder / "after.onnx"
    castsmith.save(model, before)
    castsmith.save(castsmith.optimize(before, target="onnxruntime-android").model, after)
    return after.stat().st_size / before.stat().st_size
