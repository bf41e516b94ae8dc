"""The adversarial floats through `ladder`, on OpenVINO and ONNX Runtime. Not part of the test run.

python -m tests.lowering.encodings.adversarial [--runtime openvino-cpu|onnxruntime-cpu|onnxruntime-flushing ...]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx_ir import DataType

from castsmith.lowering.encodings.choose import Encoding, decode, encode
from castsmith.lowering.encodings.ladder import round_in_place
from castsmith.lowering.formats import NarrowPolicy, encode_array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import FLOAT8_TYPES, type_name
from tests.lowering.encodings import patterns
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session

OPSET = 24
SOURCES = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
Runs = Callable[[onnx.ModelProto, Array], list[Array]]


@cache
def adversarial_floats() -> npt.NDArray[np.float32]:
    """Every float16 and bfloat16, the midpoints of neighbours among them and among the float8 values, one step of
    float32 to either side of each, specials and random bits: more than half a million."""
    halves = [patterns.all_patterns(dtype).astype(np.float32) for dtype in (DataType.FLOAT16, DataType.BFLOAT16)]
    midpoints = [_midpoints(values) for values in halves]
    close = [patterns.float32_around(to, 1) for to in FLOAT8_TYPES]
    return np.concatenate([*halves, *midpoints, *close])


def _midpoints(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    ordered = np.unique(values[np.isfinite(values)]).astype(np.float64)
    middle = ((ordered[1:] + ordered[:-1]) / 2).astype(np.float32)
    return np.concatenate([middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))])


def openvino_cpu(model: onnx.ModelProto, x: Array) -> list[Array]:
    """The output of OpenVINO on the CPU, computed in float32 by the precision hint."""
    openvino: Any = importlib.import_module("openvino")
    core = openvino.Core()
    read = core.read_model(model.SerializeToString())
    compiled = core.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    if x.dtype.kind == "V" or x.dtype.name == "bfloat16":
        tensor = openvino.Tensor(np.ascontiguousarray(x).view(np.uint16), x.shape, openvino.Type.bf16)
        return [np.asarray(compiled([tensor])[0])]
    return [np.asarray(compiled([x])[0])]


def onnxruntime_cpu(model: onnx.ModelProto, x: Array) -> list[Array]:
    """The outputs of ONNX Runtime, not optimized and optimized."""
    return [run(session(model, level), {"x": x})[0] for level in LEVELS]


def onnxruntime_flushing(model: onnx.ModelProto, x: Array) -> list[Array]:
    """The output of ONNX Runtime told to take subnormal floats for zeros; from then on this process does so too."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    options.intra_op_num_threads = 1
    opened = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return [run(opened, {"x": x})[0]]


RUNTIMES: dict[str, Runs] = {
    "openvino-cpu": openvino_cpu,
    "onnxruntime-cpu": onnxruntime_cpu,
    "onnxruntime-flushing": onnxruntime_flushing,
}


def differences(runs: Runs, to: DataType, saturate: bool) -> Iterator[tuple[str, int, int]]:
    """Yield each run: the numbers of values, and of differences from the codec, NaN signs and payloads aside."""
    policy = NarrowPolicy(saturate, OPSET)
    for source in SOURCES:
        x = adversarial_floats() if source == DataType.FLOAT else patterns.all_patterns(source)
        expected, nan = encode_array(x, to, policy), np.isnan(x.astype(np.float32))
        expected[nan] = encode_array(np.full(1, np.nan, np.float32), to, policy)
        model = sequence_model(
            lambda b, v: encode(b, v, to, policy, Encoding.LADDER), source, OPSET, flat_look_up=False
        )
        wrong = sum(int(np.count_nonzero(codes != expected)) for codes in runs(model, x))
        yield f"{type_name(source)} to codes", x.size, wrong
    x = adversarial_floats()
    model = sequence_model(lambda b, v: round_in_place(b, v, to, policy), DataType.FLOAT, OPSET)
    yield "in place", x.size, _unlike(runs(model, x), encode_array(x, to, policy), to)
    codes = np.arange(256, dtype=np.uint8)
    model = sequence_model(lambda b, v: decode(b, v, to, DataType.FLOAT), DataType.UINT8, OPSET, flat_look_up=False)
    yield "decode", 256, _unlike(runs(model, codes), codes, to)


def _unlike(found: list[Array], codes: npt.NDArray[np.uint8], to: DataType) -> int:
    expected = cast(codes.view(to.numpy()), DataType.FLOAT)
    bits, nan = expected.view(np.uint32), np.isnan(expected)
    return sum(int(np.count_nonzero((y.view(np.uint32) != bits) & ~(nan & np.isnan(y)))) for y in found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runtime", nargs="+", choices=RUNTIMES, default=list(RUNTIMES))
    arguments = parser.parse_args()
    total = 0
    for name in arguments.runtime:
        for to in FLOAT8_TYPES:
            for saturate in (True, False):
                began = time.perf_counter()
                found = list(differences(RUNTIMES[name], to, saturate))
                total += sum(wrong for *_, wrong in found)
                what = ", ".join(f"{text} {size}: {wrong} wrong" for text, size, wrong in found)
                took = time.perf_counter() - began
                print(f"{name} {type_name(to)} saturate={saturate}: {what}, {took:.1f} s", flush=True)
    return min(total, 1)


if __name__ == "__main__":
    sys.exit(main())
