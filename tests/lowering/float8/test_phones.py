"""The float8 transformer of benchmarks/float8_transformer.py: one set of bits in every engine that runs it.

`make web` runs the models in onnxruntime-web too.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.float8_transformer import TARGETS, an_input, in_onnxruntime, in_openvino, in_web, lowered, transformer
from castsmith.numerics.types import CODED_TYPES

WEB = os.environ.get("CASTSMITH_WEB", "")


@pytest.fixture(scope="module")
def whole() -> onnx.ModelProto:
    return transformer(exact=True, width=32)


@pytest.fixture(scope="module")
def wanted(whole: onnx.ModelProto) -> np.ndarray:
    y = in_onnxruntime(whole)(an_input(32))
    assert len(np.unique(y)) > 100
    return y


@pytest.mark.parametrize("target", [*TARGETS, "tract"])
def test_the_lowered_transformer_gives_the_bits_of_the_original(
    whole: onnx.ModelProto, wanted: np.ndarray, target: str
) -> None:
    model = lowered(whole, target)
    assert not {tensor.data_type for tensor in model.graph.initializer} & set(map(int, CODED_TYPES))
    assert in_onnxruntime(model)(an_input(32)).tobytes() == wanted.tobytes()
    if target == "openvino-cpu":
        pytest.importorskip("openvino")
        assert in_openvino(model)(an_input(32)).tobytes() == wanted.tobytes()


@pytest.mark.skipif(
    not WEB or shutil.which("node") is None, reason="needs Node and onnxruntime-web, as make web has them"
)
def test_onnxruntime_web_gives_the_same_bits(whole: onnx.ModelProto, wanted: np.ndarray) -> None:
    models = {target: lowered(whole, target) for target in TARGETS}
    answers = in_web(models, an_input(32), Path(WEB))
    assert {name: "y" in answers[name] for name in models} == dict.fromkeys(models, True), answers
    for name in models:
        assert answers[name]["y"].tobytes() == wanted.tobytes(), name
