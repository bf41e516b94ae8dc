"""A model with weights far larger than memory should be: peak memory, and the time beside that of `cp` of the output.

    python -m benchmarks.weights [--gigabytes 10] [--folded 1] [--folder FOLDER]       weights copied
    python -m benchmarks.weights --gigabytes 100 --reference                          weights referenced in place
    python -m benchmarks.weights [--gigabytes 10] --convert [--side 2048]             weights of products, to float16

The two take turns, three times over; the seconds are the best of each, and the ratios those of each turn, the median
with the least and the greatest. Half of what is folded is cast to float16, half to float8e4m3fn. With --convert each
product follows a normalization, so that it is bounded and its weight is read for that too. With --reference the data
file is sparse, so that it takes no room; without, it holds random numbers. The kernel copies for `cp` as for Castsmith,
but `cp` does not wait for the disk. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.peers import Measured, run, spread

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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--folded", type=float, default=1.0)
    parser.add_argument("--folder", help="where to work, with room for twice the size (default: a temporary folder)")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--convert", action="store_true", help="convert a model of products to float16")
    parser.add_argument("--side", type=int, default=8192, help="the side of each weight of a product (default: 8192)")
    parser.add_argument("--times", type=int, default=3, help="how often each is run (default: 3)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        source, result, copies = Path(name) / "large.onnx", Path(name) / "out.onnx", Path(name) / "copies"
        copies.mkdir()
        if arguments.convert:
            products(source, arguments.gigabytes, arguments.side)
        else:
            large_model(source, arguments.gigabytes, arguments.folded, sparse=arguments.reference)
        options = ["--reference-data"] if arguments.reference else ["--to", "float16"] if arguments.convert else []
        name_of = "convert" if arguments.convert else "optimize"
        command = [sys.executable, "-m", "castsmith", name_of, str(source), "-o", str(result), *options]
        commands = {f"castsmith {name_of} " + " ".join(options): command}
        if not arguments.reference:
            commands["cp"] = ["sh", "-c", f"cp {result}* {copies}"]
        ratios = "" if arguments.reference else " wall to cp | processor to cp |"
        titles = f"| command | wall s | processor s | peak MB | output |{ratios}"
        print(f"{titles}\n|{'---|' * (titles.count('|') - 1)}")
        turns: list[dict[str, tuple[Measured, int]]] = []
        for _ in range(arguments.times):
            for file in (*Path(name).glob("out.onnx*"), *copies.iterdir()):
                file.unlink()
            turns.append({title: _run(each, Path(name)) for title, each in commands.items()})
        for title in commands:
            found, made = min((turn[title] for turn in turns), key=lambda each: each[0].seconds)
            took = f"{found.seconds:.1f} | {found.processor:.1f} | {found.megabytes:.0f}"
            beside = ""
            if not arguments.reference:
                pairs = [(turn[title][0], turn["cp"][0]) for turn in turns]
                beside = f" {spread([a.seconds / b.seconds for a, b in pairs])} |"
                beside += f" {spread([a.processor / b.processor for a, b in pairs])} |"
            print(f"| {title} | {took} | {made / 1e9:.2f} GB |{beside}")


def _run(command: Sequence[str], folder: Path) -> tuple[Measured, int]:
    """What a run takes, and how many bytes it writes."""
    before = _bytes_in(folder)
    return run(command, 3600), _bytes_in(folder) - before


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*"))


if __name__ == "__main__":
    main()
