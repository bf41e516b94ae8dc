"""How fast Cast is, beside ml_dtypes and ONNX Runtime: one thread, in turns.

    python -m benchmarks.casts [--elements N] [--repeats N] [SOURCE>TARGET ...]

Columns: nanoseconds an element here, the least; how many times faster than `astype` of numpy and ml_dtypes, than the
Cast kernel of ONNX Runtime, and than PyTorch where it can be imported, each the median of the turns with the least and
the greatest; and the most memory that a cast took beside its result. The last is what tracemalloc sees of numpy. ONNX
Runtime writes to memory that it is given, the others to fresh memory. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import helper

from benchmarks.pairing import in_turns, ratios, spread, timed
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import FLOAT8_TYPES, parse_type, type_name

_FLOAT8 = [type_name(dtype) for dtype in FLOAT8_TYPES]
PAIRS = [
    *(f"float>{name}" for name in _FLOAT8),
    *(f"{name}>float" for name in _FLOAT8),
    *("float>float16", "float>bfloat16", "float16>float", "bfloat16>float", "float>float4e2m1", "float>float8e8m0"),
    *("float>int8", "float>uint8", "float>int32", "float>int64", "int8>float", "int64>int32", "float>bool"),
    *("double>float", "double>float16", "double>bfloat16", "double>float8e4m3fn", "float16>bfloat16", "int64>float"),
]
_TORCH = {
    "float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2",
    "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip
_Work = Callable[[], object]


def data(source: str, elements: int) -> np.ndarray:
    """Numbers within the range of every target, so that nobody's slow path is timed."""
    numbers = np.random.default_rng(0).uniform(-100, 100, elements).astype(np.float32)
    return cast(numbers, source)


def with_astype(array: np.ndarray, target: str) -> _Work:
    dtype = parse_type(target).numpy()
    return lambda: array.astype(dtype)


def with_onnxruntime(array: np.ndarray, source: str, target: str) -> _Work | None:
    """One Cast on preallocated memory, bound once; None where there is no kernel."""
    from_type, to_type = parse_type(source).value, parse_type(target).value
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=to_type)],
        "one",
        [helper.make_tensor_value_info("x", from_type, [array.size])],
        [helper.make_tensor_value_info("y", to_type, [array.size])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return None
    result = np.zeros(array.size, parse_type(target).numpy())
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, from_type, [array.size], array.ctypes.data)
    binding.bind_output("y", "cpu", 0, to_type, [array.size], result.ctypes.data)
    kept = (array, result)  # the binding holds addresses alone

    def run() -> object:
        session.run_with_iobinding(binding)
        return kept

    return run


def with_torch(array: np.ndarray, source: str, target: str) -> _Work | None:
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(1)
    from_type, to_type = (getattr(torch, _TORCH.get(name, name), None) for name in (source, target))
    if from_type is None or to_type is None:
        return None
    tensor = torch.from_numpy(array.view(f"i{array.itemsize}")).view(from_type)
    return lambda: tensor.to(to_type)


def extra_megabytes(array: np.ndarray, target: str) -> float:
    """The most that `cast` allocates at one time beyond its result, tables already made."""
    tracemalloc.start()
    result = cast(array, target)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - result.nbytes) / 2**20


def row(pair: str, elements: int, repeats: int) -> str:
    source, target = pair.split(">")
    array = data(source, elements)
    works: dict[str, _Work | None] = {
        "castsmith": lambda: cast(array, target),
        "astype": with_astype(array, target),
        "ONNX Runtime": with_onnxruntime(array, source, target),
        "PyTorch": with_torch(array, source, target),
    }
    for work in filter(None, works.values()):
        work()
    times = in_turns({tool: timed(work) for tool, work in works.items() if work is not None}, repeats)
    ours = times["castsmith"]
    beside = [spread(ratios(times[tool], ours)) if tool in times else "-" for tool in list(works)[1:]]
    cells = [pair.replace(">", " to "), f"{min(ours) / elements * 1e9:.2f}", *beside]
    return f"| {' | '.join(cells)} | {extra_megabytes(array, target):.1f} |"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.casts")
    parser.add_argument("pairs", nargs="*", metavar="SOURCE>TARGET")
    parser.add_argument("--elements", type=int, default=2**24)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    print("| cast | ns | to astype | to ONNX Runtime | to PyTorch | extra MB |\n|---|---|---|---|---|---|")
    for pair in options.pairs or PAIRS:
        print(row(pair, options.elements, options.repeats), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
