"""Comparing a rewritten model with its oracle, bit for bit, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

LEVELS = {
    "off": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "default": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
"""ONNX Runtime's own optimization: none, and what it does unless told otherwise."""


def session(model: Path | bytes, level: str = "off") -> onnxruntime.InferenceSession:
    """An ONNX Runtime session of one thread; raises what ONNX Runtime raises where it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def refusal(model: Path | bytes, level: str = "off") -> str:
    """What ONNX Runtime says when it refuses the model, in one line; empty where it takes it."""
    try:
        session(model, level)
    except Exception as error:  # ONNX Runtime raises a class of its own for each of its status codes
        return " ".join(str(error).split())
    return ""


def cases(reference: Path) -> Iterator[tuple[Arrays, Arrays]]:
    """The inputs and expected outputs in a model's `.npz`."""
    with np.load(reference) as file:
        arrays = dict(file)
    count = len({key.split("/")[0] for key in arrays if key.startswith("in")})
    for index in range(count):
        yield _under(arrays, f"in{index}/"), _under(arrays, f"out{index}/")


def run(runner: onnxruntime.InferenceSession, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
    """The outputs by name."""
    names = [output.name for output in runner.get_outputs()]
    feeds = {value.name: inputs[value.name] for value in runner.get_inputs()}
    arrays = [np.asarray(array) for array in runner.run(names, feeds)]
    return dict(zip(names, arrays, strict=True))


def first_difference(found: Arrays, expected: Arrays) -> str:
    """The first element that differs in any bit, in words; empty where none does. One NaN is as good as another."""
    for name, wanted in expected.items():
        got = found[name]
        if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
            return f"{name} is {got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
        differs = _codes(got) != _codes(wanted)
        if got.dtype.kind == "f":
            differs &= ~(np.isnan(got) & np.isnan(wanted))
        if differs.any():
            place = tuple(int(index) for index in np.argwhere(differs)[0])
            return f"{name}{list(place)} is {got[place]!r}, not {wanted[place]!r}"
    return ""


def _under(arrays: Arrays, prefix: str) -> Arrays:
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


def _codes(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "f" else array
