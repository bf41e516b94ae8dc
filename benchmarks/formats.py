"""The cost of a lowered format beside ONNX Runtime's own kernel: nodes, and ns for each element.

    python -m benchmarks.formats [--repeat N] [--products]

Each row is one tensor of 1024 x 1024: dequantized, or quantized and dequantized; MatMulNBits is the product with a
row. `own kernel` is the model as it is in ONNX Runtime, `lowered` what `optimize` makes of it for the target that is
named, run there too. Nothing is folded, neither by Castsmith nor when ONNX Runtime loads a model, so that weights are
decoded in every run. The two take N turns on one thread: the least processor time of each, and the ratio, the median
of the turns with the ends of the middle half of them. Where ONNX Runtime has no kernel, there is nothing to compare
with.

`--products` compares forms of one product instead, of rows with a weight of 1024 x 1024 in blocks of 32: each with
the least processor time, ns for each element of the weight, and its largest difference from the exact product,
relative to the largest result. They take turns; the ratio is that of the last form to `float`. `two nodes` are
DequantizeLinear and MatMul without any optimization, `as loaded` what ONNX Runtime makes of them by default, `float`
the same with session.qdq_matmulnbits_accuracy_level 1, and `--vendor` what `castsmith optimize --vendor
com.microsoft` makes of them.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx_ir import DataType

import castsmith
from benchmarks.float8_transformer import Array, in_ms, in_onnxruntime
from benchmarks.pairing import middle, ratios, spread

SIZE = 1024
FORMATS: dict[str, tuple[DataType, DataType, int, str]] = {
    "float8e4m3fn, one scale": (DataType.FLOAT8E4M3FN, DataType.FLOAT, 0, "onnxruntime-android"),
    "MXFP8": (DataType.FLOAT8E4M3FN, DataType.FLOAT8E8M0, 32, "onnxruntime-cpu"),
    "MXFP6 e2m3": (DataType.FLOAT6E2M3, DataType.FLOAT8E8M0, 32, "onnxruntime-cpu"),
    "MXFP4": (DataType.FLOAT4E2M1, DataType.FLOAT8E8M0, 32, "onnxruntime-cpu"),
    "int4 in blocks of 32": (DataType.INT4, DataType.FLOAT, 32, "tflite"),
    "uint4 in blocks of 32": (DataType.UINT4, DataType.FLOAT, 32, "tflite"),
    "uint2 in blocks of 32": (DataType.UINT2, DataType.FLOAT, 32, "tflite"),
}
"""The quantized type, the type of the scales, the block size or 0, and the target."""


def tensor(name: str, array: Any, dtype: DataType) -> onnx.TensorProto:
    """Return an initializer of the type."""
    return onnx_ir.to_proto(onnx_ir.tensor(np.asarray(array).astype(dtype.numpy()), name=name, dtype=dtype))


def quantization(name: str, *, whole: bool) -> onnx.ModelProto:
    """Return a model that dequantizes a stored tensor; `whole`: that quantizes its input first."""
    dtype, scaled, block, _ = FORMATS[name]
    rng = np.random.default_rng(0)
    opset = 28 if "FLOAT6" in dtype.name else 27
    layout: dict[str, Any] = {"axis": 1, "block_size": block} if block else {}
    shape = (SIZE, SIZE // block) if block else ()
    weights = [tensor("s", 2.0 ** rng.integers(-3, 3, shape), scaled)]
    gives: dict[str, Any] = {"output_dtype": int(TensorProto.FLOAT), **layout}
    if whole:
        quantize = helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=int(dtype), **layout)
        nodes = [quantize, helper.make_node("DequantizeLinear", ["q", "s"], ["y"], **gives)]
    else:
        weights.append(tensor("q", rng.integers(0, 2, (SIZE, SIZE)), dtype))
        nodes = [
            helper.make_node("DequantizeLinear", ["q", "s"], ["w"], **gives),
            helper.make_node("Add", ["w", "x"], ["y"]),
        ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [SIZE, SIZE] if whole else [1])
    return _model(nodes, x, weights, opset)


def matmul_nbits(bits: int) -> onnx.ModelProto:
    """Return the product of a row with weights of so many bits, in blocks of 32."""
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (SIZE, SIZE // 32, 4 * bits), dtype=np.uint8)
    weights = [tensor("b", packed, DataType.UINT8), tensor("s", np.full((SIZE, SIZE // 32), 0.25), DataType.FLOAT)]
    sizes: dict[str, Any] = {"K": SIZE, "N": SIZE, "bits": bits, "block_size": 32}
    node = helper.make_node("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", **sizes)
    return _model([node], helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, SIZE]), weights, 21)


def _model(
    nodes: list[onnx.NodeProto], x: onnx.ValueInfoProto, weights: list[onnx.TensorProto], opset: int
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=14 if opset > 27 else 13 if opset > 24 else 10)


def cost(model: onnx.ModelProto, target: str, repeat: int) -> list[str]:
    """Return nodes and ns for each element, of the model as it is and lowered, and the ratio."""
    lowered = onnx_ir.to_proto(castsmith.optimize(model, target=target, max_growth=0).model)
    dims = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x: Array = np.random.default_rng(1).normal(0, 1, dims).astype(np.float32)
    models, runs = {"own": model, "lowered": lowered}, dict[str, Callable[[Array], Array]]()
    for name, each in models.items():
        try:
            run = in_onnxruntime(each, fold=False)
            run(x)
            runs[name] = run
        except Exception:  # ONNX Runtime has no kernel of the type
            continue
    times, cells = in_ms(runs, x, repeat), list[str]()
    for name, each in models.items():
        cells += [str(len(each.graph.node)), per_element(times[name])] if name in times else ["-", "-"]
    return [*cells, spread(middle(ratios(times["lowered"], times["own"]))) if len(times) == 2 else "-"]


def per_element(ms: list[float]) -> str:
    """Return the least time for an element, in nanoseconds."""
    return f"{min(ms) * 1e6 / SIZE**2:.2f}"


WEIGHTS = {
    "int4": DataType.INT4,
    "uint4": DataType.UINT4,
    "int8": DataType.INT8,
    "uint8": DataType.UINT8,
    "int2": DataType.INT2,
}


def product(dtype: DataType, *, transposed: bool) -> tuple[onnx.ModelProto, NDArray[np.float64]]:
    """Return the product with a weight that is dequantized, and the exact weight in double; transposed: before it."""
    rng, least = np.random.default_rng(0), 0 if dtype.name.startswith("U") else -(2 ** (dtype.bitwidth - 1))
    codes = rng.integers(least, least + 2**dtype.bitwidth, (SIZE, SIZE))
    scales = rng.uniform(0.01, 0.02, (SIZE // 32, SIZE)).astype(np.float32)
    points = np.full(scales.shape, least + 2 ** (dtype.bitwidth - 1))
    exact = (codes - np.repeat(points, 32, 0)) * np.repeat(scales.astype(np.float64), 32, 0)
    held = {"q": (codes, dtype), "s": (scales, DataType.FLOAT), "z": (points, dtype)}
    weights = [tensor(name, array.T if transposed else array, kind) for name, (array, kind) in held.items()]
    layout: dict[str, Any] = {"axis": 1 if transposed else 0, "block_size": 32}
    nodes = [helper.make_node("DequantizeLinear", list(held), ["d"], **layout)]
    if transposed:
        nodes.append(helper.make_node("Transpose", ["d"], ["w"], perm=[1, 0]))
    nodes.append(helper.make_node("MatMul", ["x", "w" if transposed else "d"], ["y"]))
    return _model(nodes, helper.make_tensor_value_info("x", TensorProto.FLOAT, ["M", SIZE]), weights, 25), exact


def session_of(model: onnx.ModelProto, *, optimized: bool = True, accuracy: str = "") -> Callable[[Array], Array]:
    """Return the model as a function, in ONNX Runtime on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if accuracy:
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", accuracy)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda x: np.asarray(session.run(None, {"x": x})[0])


def products(repeat: int) -> None:
    """Print the table of products."""
    print("| weight | rows | two nodes | as loaded | float | --vendor | --vendor to float |")
    print("|---|---|---|---|---|---|---|")
    for (name, dtype), transposed, rows in itertools.product(WEIGHTS.items(), (False, True), (1, 64)):
        model, exact = product(dtype, transposed=transposed)
        made = onnx_ir.to_proto(castsmith.optimize(model, target="onnxruntime-cpu", vendor="com.microsoft").model)
        x: Array = np.random.default_rng(1).normal(0, 1, (rows, SIZE)).astype(np.float32)
        wanted, cells = x.astype(np.float64) @ exact, list[str]()
        runs = {
            "two nodes": session_of(model, optimized=False),
            "as loaded": session_of(model),
            "float": session_of(model, accuracy="1"),
            "vendor": session_of(made),
        }
        times = in_ms(runs, x, repeat)
        for form, run in runs.items():
            error = np.abs(run(x) - wanted).max() / np.abs(wanted).max()
            cells.append(f"{per_element(times[form])} ns, {error:.0e}")
        cells.append(spread(middle(ratios(times["vendor"], times["float"]))))
        print(f"| {name}{', transposed' if transposed else ''} | {rows} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--products", action="store_true")
    repeat = parser.parse_args().repeat
    if parser.parse_args().products:
        products(repeat)
        return
    print("| format | what | target | nodes | own kernel, ns | nodes, lowered | lowered, ns | lowered to own |")
    print("|---|---|---|---|---|---|---|---|")
    rows = [
        (name, "quantize, dequantize" if whole else "dequantize", FORMATS[name][3], quantization(name, whole=whole))
        for name in FORMATS
        for whole in (False, True)
    ]
    rows += [(f"MatMulNBits, {bits} bits", "product with a row", "tflite", matmul_nbits(bits)) for bits in (2, 4, 8)]
    for name, what, target, model in rows:
        print(f"| {name} | {what} | {target} | {' | '.join(cost(model, target, repeat))} |", flush=True)


if __name__ == "__main__":
    main()
