"""Models with weights far larger than memory should be: peak memory, and the time beside that of `cp` of the output.

    python -m benchmarks.weights [--kind KIND ...] [--gigabytes N] [--folder FOLDER] [--times N]

Castsmith and `cp` take turns; the seconds are the least of each, and the ratios those of each turn, the median with the
least and the greatest. The kernel copies for `cp` as for Castsmith, but `cp` does not wait for the disk. Prints
Markdown. The kinds, each with the gigabytes that it has by default:

    folded       10, of which `--folded` are cast, half to float16 and half to float8e4m3fn; the others are copied
    convert      10 of products, converted to float16; each follows a normalization, so that its weight bounds it
    reference    100, referenced in place: the data file is sparse, so that it takes no room. Nothing is copied, so that
                 the peer is onnx, which loads and saves the model without its data
    quantized    1 in two tensors, one quantized along its first axis, the other along its last
    float8       2 of float8e4m3fn in a data file, optimized for onnxruntime-android
    float8-in    1 of float8e4m3fn in the model file, optimized for onnxruntime-android
    bfloat16     2 of bfloat16 in a data file, optimized for onnxruntime-cpu

FOLDER needs room for three times the size of the weights. By default all kinds run, one after the other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.pairing import spread
from benchmarks.peers import Measured, run

_TENSOR = 1 << 28
"""Bytes in each weight."""


def large_model(path: Path, gigabytes: float, folded: float, *, sparse: bool) -> None:
    """Write a model with so many gigabytes of external weights, of which `folded` are cast."""
    data, count = path.with_name("weights.bin"), round(gigabytes * 2**30 / _TENSOR)
    casts = round(folded * 2**30 / _TENSOR)
    nodes: list[onnx.NodeProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    weights: list[onnx.TensorProto] = []
    for index in range(count):
        weight = TensorProto(
            name=f"w{index}", data_type=TensorProto.FLOAT, dims=[_TENSOR // 4], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", data.name), ("offset", index * _TENSOR), ("length", _TENSOR)):
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
        to = (TensorProto.FLOAT16, TensorProto.FLOAT8E4M3FN)[index % 2] if index < casts else TensorProto.FLOAT
        nodes.append(helper.make_node("Identity", [f"w{index}"], [f"y{index}"], name=f"n{index}"))
        if index < casts:
            nodes[-1].op_type = "Cast"
            nodes[-1].attribute.append(helper.make_attribute("to", to))
        outputs.append(helper.make_tensor_value_info(f"y{index}", to, weight.dims))
    graph = helper.make_graph(nodes, "large", [], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    block = np.random.default_rng(0).standard_normal(_TENSOR // 4, np.float32)
    with data.open("wb") as file:
        for _ in range(0 if sparse else count):
            block.tofile(file)
        file.truncate(count * _TENSOR)


def products(path: Path, gigabytes: float, side: int) -> None:
    """Write a model that normalizes and multiplies by so many gigabytes of external square weights, one by one."""
    data, size = path.with_name("weights.bin"), 4 * side * side
    count = round(gigabytes * 2**30 / size)
    weights: list[onnx.TensorProto] = []
    for index in range(count):
        weight = TensorProto(
            name=f"w{index}", data_type=TensorProto.FLOAT, dims=[side, side], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", data.name), ("offset", index * size), ("length", size)):
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
    scale = onnx.numpy_helper.from_array(np.ones(side, np.float32), "scale")
    nodes: list[onnx.NodeProto] = []
    for index in range(count):
        nodes.append(helper.make_node("LayerNormalization", [f"v{index}", "scale"], [f"u{index}"], name=f"l{index}"))
        nodes.append(helper.make_node("MatMul", [f"u{index}", f"w{index}"], [f"v{index + 1}"], name=f"n{index}"))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, side]) for name in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "products", ports[:1], ports[1:], [*weights, scale])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    block = np.random.default_rng(0).standard_normal(size // 4, np.float32) / side**0.5
    with data.open("wb") as file:
        for _ in range(count):
            block.tofile(file)


def quantized(path: Path, gigabytes: float) -> None:
    """Write a model that quantizes two external float weights, along either axis."""
    side = round((gigabytes * 2**30 / 8) ** 0.5)
    scale = onnx.numpy_helper.from_array(np.full(side, 0.05, np.float32), "s")
    nodes = [helper.make_node("QuantizeLinear", [f"w{axis}", "s", "z"], [f"y{axis}"], axis=axis) for axis in (0, 1)]
    zero = onnx.numpy_helper.from_array(np.zeros(side, np.int8), "z")
    outputs = [helper.make_tensor_value_info(f"y{axis}", TensorProto.INT8, [side, side]) for axis in (0, 1)]
    _stored(
        path, {f"w{axis}": ([side, side], int(TensorProto.FLOAT)) for axis in (0, 1)}, nodes, outputs, [scale, zero]
    )


def narrow(path: Path, gigabytes: float, dtype: int, *, inside: bool = False) -> None:
    """Write a model with so many gigabytes of weights of a narrow type, each cast to float and added to the input."""
    itemsize = helper.tensor_dtype_to_np_dtype(dtype).itemsize
    count = round(gigabytes * 2**30 / _TENSOR)
    shape = [_TENSOR // itemsize]
    weights = {f"w{index}": (shape, dtype) for index in range(count)}
    nodes: list[onnx.NodeProto] = []
    for index in range(count):
        nodes.append(helper.make_node("Cast", [f"w{index}"], [f"c{index}"], to=TensorProto.FLOAT, name=f"cast{index}"))
        nodes.append(helper.make_node("Add", [f"c{index}", "x"], [f"y{index}"], name=f"add{index}"))
    outputs = [helper.make_tensor_value_info(f"y{index}", TensorProto.FLOAT, shape) for index in range(count)]
    _stored(path, weights, nodes, outputs, [])
    if inside:
        onnx.save(onnx.load(path), path)
        path.with_name("weights.bin").unlink()


def _stored(
    path: Path,
    weights: Mapping[str, tuple[list[int], int]],
    nodes: list[onnx.NodeProto],
    outputs: list[onnx.ValueInfoProto],
    small: list[onnx.TensorProto],
) -> None:
    """Write the model, with random codes of the weights in a data file."""
    data, offset = path.with_name("weights.bin"), 0
    made: list[onnx.TensorProto] = []
    block = np.random.default_rng(0).standard_normal(1 << 22, np.float32)
    with data.open("wb") as file:
        for name, (shape, dtype) in weights.items():
            stored = block.astype(helper.tensor_dtype_to_np_dtype(dtype))
            length = int(np.prod(shape)) * stored.itemsize
            made.append(TensorProto(name=name, data_type=dtype, dims=shape, data_location=TensorProto.EXTERNAL))
            for key, value in (("location", data.name), ("offset", offset), ("length", length)):
                made[-1].external_data.add(key=key, value=str(value))
            for start in range(0, length, stored.nbytes):
                stored[: (length - start) // stored.itemsize].tofile(file)
            offset += length
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph(nodes, "stored", [x], outputs, [*made, *small])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


class Kind(NamedTuple):
    """What is measured: the gigabytes by default, what writes the model, the command and its options."""

    gigabytes: float
    write: Callable[[Path, float], None]
    command: tuple[str, ...]


_FLOAT8, _BFLOAT16 = TensorProto.FLOAT8E4M3FN, TensorProto.BFLOAT16
_ANDROID = ("optimize", "--target", "onnxruntime-android")
_STRUCTURE = """import sys, onnx
onnx.save(onnx.load(sys.argv[1], load_external_data=False), sys.argv[2])"""


def kinds(folded: float, side: int) -> dict[str, Kind]:
    """Return all kinds."""

    def copied(path: Path, size: float) -> None:
        large_model(path, size, folded, sparse=False)

    def referenced(path: Path, size: float) -> None:
        large_model(path, size, folded, sparse=True)

    return {
        "folded": Kind(10, copied, ("optimize",)),
        "convert": Kind(10, partial(products, side=side), ("convert", "--to", "float16")),
        "reference": Kind(100, referenced, ("optimize", "--link-data")),
        "quantized": Kind(1, quantized, ("optimize",)),
        "float8": Kind(2, partial(narrow, dtype=_FLOAT8), _ANDROID),
        "float8-in": Kind(1, partial(narrow, dtype=_FLOAT8, inside=True), _ANDROID),
        "bfloat16": Kind(2, partial(narrow, dtype=_BFLOAT16), ("optimize", "--target", "onnxruntime-cpu")),
    }


def measured(name: str, kind: Kind, size: float, folder: Path, times: int) -> Iterator[str]:
    """Yield the rows of a kind."""
    source, result, copies = folder / "large.onnx", folder / "out.onnx", folder / "copies"
    copies.mkdir()
    kind.write(source, size)
    verb, *options = kind.command
    commands = {
        f"castsmith {' '.join(kind.command)}": ["-m", "castsmith", verb, str(source), "-o", str(result), *options]
    }
    commands = {title: [sys.executable, *words] for title, words in commands.items()}
    peer = "onnx, load and save without data" if name == "reference" else "cp of the output"
    other = [sys.executable, "-c", _STRUCTURE, str(source), str(copies / "copy.onnx")]
    commands[peer] = other if name == "reference" else ["sh", "-c", f"cp {result}* {copies}"]
    turns: list[dict[str, tuple[Measured, int]]] = []
    for _ in range(times):
        for file in (*folder.glob("out.onnx*"), *copies.iterdir()):
            file.unlink()
        turns.append({title: _run(each, folder) for title, each in commands.items()})
    for title in commands:
        found, made = min((turn[title] for turn in turns), key=lambda each: each[0].seconds)
        pairs = [(turn[title][0], turn[peer][0]) for turn in turns]
        walls = spread([a.seconds / b.seconds for a, b in pairs])
        cells = f"{found.seconds:.1f} | {found.processor:.1f} | {found.megabytes:.0f} | {made / 1e9:.2f} GB"
        what = f"{name}, {size:g} GB"
        yield f"| {what} | {title} | {cells} | {walls} | {spread([a.processor / b.processor for a, b in pairs])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", nargs="+", metavar="KIND", choices=kinds(1, 1), help="one of those above")
    parser.add_argument("--gigabytes", type=float, help="the size, in place of that of the kind")
    parser.add_argument("--folded", type=float, default=1.0, help="gigabytes that are cast (default: 1)")
    parser.add_argument("--folder", help="where to work (default: a temporary folder)")
    parser.add_argument("--side", type=int, default=8192, help="the side of each weight of a product (default: 8192)")
    parser.add_argument("--times", type=int, default=3, help="how often each is run (default: 3)")
    arguments = parser.parse_args()
    known = kinds(arguments.folded, arguments.side)
    titles = "model | command | wall s | processor s | peak MB | output | wall to peer | processor to peer"
    print(f"| {titles} |\n|{'---|' * (titles.count('|') + 1)}")
    for name in arguments.kind or known:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            size = arguments.gigabytes or known[name].gigabytes
            for row in measured(name, known[name], size, Path(folder), arguments.times):
                print(row, flush=True)


def _run(command: Sequence[str], folder: Path) -> tuple[Measured, int]:
    """What a run takes, and how many bytes it writes."""
    before = _bytes_in(folder)
    return run(command, 3600), _bytes_in(folder) - before


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*"))


if __name__ == "__main__":
    main()
