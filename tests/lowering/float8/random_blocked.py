"""Random models of QuantizeLinear and DequantizeLinear in blocks, lowered, against exact rational arithmetic.

python -m tests.lowering.float8.random_blocked COUNT [FIRST]    the models of COUNT seeds from FIRST on

Drawn are the quantized type, the types of x and of the scales, opset, shape, axis (from either end), block size (from 1
to more than the axis has), zero points, precision of the division, saturation, scales that are constant or inputs,
target and level of ONNX Runtime's optimizer. Every second last block is shorter than the others.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx_ir
from onnx import helper
from onnx_ir import DataType

import castsmith
from castsmith.ir.records import Effect, Severity
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from tests.lowering.runtime import LEVELS, Array, run, session
from tests.numerics import oracle
from tests.numerics.quantize.quantize_oracle import dequantized, quantized

_BLOCKS_SINCE, _MIXED_SINCE, _SCALES_SINCE, _PRECISION_SINCE = 21, 23, 24, 23
_IR_VERSION = {21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13, 27: 13, 28: 14}
_TARGETS = ("onnxruntime-android", "onnxruntime-cpu", "tflite")
_WIDE = ("float", "float16", "bfloat16")
_BYTES, _NEWEST_KERNELS = ("int8", "uint8"), 27
"""Types that other targets keep, and the newest opset of their kernels in ONNX Runtime, which runs all models here."""
_SINCE = {
    type_name(dtype): max(row.since.quantized, _BLOCKS_SINCE)
    for dtype, row in ELEMENT_TYPES.items()
    if row.since.quantized is not None and row.bits <= 8
}


@dataclass
class Case:
    """One model, its inputs, and the codes of its results."""

    text: str
    model: onnx.ModelProto
    feeds: dict[str, Array]
    wanted: dict[str, list[int]]
    types: dict[str, str]
    target: str
    level: Any
    used: dict[str, Any] = field(default_factory=dict[str, Any])


def draw(seed: int, newest: int) -> Case:
    """Return the model of the seed. The quantized types come one after another, so that every run has each of them."""
    rng = Random(seed)
    names = [name for name in _SINCE if _SINCE[name] <= newest]
    name = names[seed % len(names)]
    opset = rng.randrange(_SINCE[name], newest + 1)
    target = rng.choice(_TARGETS)
    if name in _BYTES and target == "tflite":
        opset = min(opset, _NEWEST_KERNELS)
    kind = rng.choice(_WIDE) if target.startswith("onnxruntime") else "float"
    scaled = "float8e8m0" if opset >= _SCALES_SINCE and rng.random() < 0.4 else kind
    shape, axis, block = _layout(rng)
    at = axis % len(shape)
    blocks = tuple(-(-size // block) if i == at else size for i, size in enumerate(shape))
    attributes: dict[str, Any] = {"axis": axis, "block_size": block}
    saturate = not name.startswith("float8") or rng.random() < 0.8
    precision = kind
    quantizing: dict[str, Any] = {**attributes} | ({} if saturate else {"saturate": 0})
    if opset >= _PRECISION_SINCE and rng.random() < 0.3:
        precision = "float"
        quantizing["precision"] = int(DataType.FLOAT)
    mixed: dict[str, Any] = {"output_dtype": int(DataType[kind.upper()])} if opset >= _MIXED_SINCE else {}
    gives = {**attributes, **mixed}
    scales = [_scale(rng, scaled) for _ in range(math.prod(blocks))]
    codes = [_finite(rng, name) for _ in range(math.prod(shape))]
    zeros = [_finite(rng, name) if rng.random() < 0.7 else 0 for _ in scales] if name in oracle.INTS else None
    zeros = zeros if rng.random() < 0.6 else None
    index = [_block_of(place, blocks, at, block) for place in itertools.product(*map(range, shape))]
    numbers = [oracle.decode(scaled, code) for code in scales]
    xs = [_near(rng, kind, name, float(numbers[i].size)) for i in index]

    points = [0 if zeros is None else _integer(name, zeros[i]) for i in index]
    settings = oracle.Settings(saturate=saturate, opset=opset)
    made = [
        quantized(oracle.decode(kind, x), numbers[i], zero, name, precision, settings)
        for x, i, zero in zip(xs, index, points, strict=True)
    ]

    def back(stored: list[int]) -> list[int]:
        exact = zip(stored, index, points, strict=True)
        return [dequantized(oracle.decode(name, code), numbers[i], zero, kind) for code, i, zero in exact]

    if zeros is None:  # beside a zero point, ONNX Runtime 1.32 rewrites int8 to uint8 and keeps the attribute
        quantizing["output_dtype"] = int(DataType[name.upper()])
    tail = ["s"] if zeros is None else ["s", "z"]
    nodes = [
        helper.make_node("DequantizeLinear", ["stored", *tail], ["w"], **gives),
        helper.make_node("QuantizeLinear", ["x", *tail], ["q"], **quantizing),
        helper.make_node("DequantizeLinear", ["q", *tail], ["y"], **gives),
    ]
    arrays = {"stored": _array(name, codes, shape), "s": _array(scaled, scales, blocks)}
    if zeros is not None:
        arrays["z"] = _array(name, zeros, blocks)
    feeds = {"x": _array(kind, xs, shape)}
    if rng.random() < 0.4 and scaled == kind:
        feeds["s"] = arrays.pop("s")
    types = dict.fromkeys("wy", kind)
    text = f"seed {seed}: {name}, {kind}, scales {scaled}, opset {opset}, {shape} axis {axis} block {block}, {target}"
    model = _model(nodes, feeds, arrays, types, shape, opset)
    used = {"type": name, "scale": scaled, "opset": opset, "target": target, "short": shape[at] % block != 0}
    wanted = {"w": back(codes), "y": back(made)}
    return Case(text, model, feeds, wanted, types, target, rng.choice(LEVELS), used)


def _layout(rng: Random) -> tuple[tuple[int, ...], int, int]:
    """Return the shape, the axis and the block size.

    ONNX Runtime 1.32 takes a scale of one element for that of a whole tensor, and refuses it: none here.
    """
    shape = [rng.randrange(1, 9) for _ in range(rng.randrange(1, 4))]
    axis = rng.randrange(-len(shape), len(shape))
    if len(shape) == 1:
        return (shape[0] + 1,), axis, rng.randrange(1, shape[0] + 1)
    if np.prod(shape) == shape[axis]:
        shape[(axis - 1) % len(shape)] = 2
    return tuple(shape), axis, rng.randrange(1, shape[axis] + 2)


def _model(
    nodes: list[onnx.NodeProto],
    feeds: dict[str, Array],
    constants: dict[str, Array],
    types: dict[str, str],
    shape: tuple[int, ...],
    opset: int,
) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, int(DataType.from_numpy(array.dtype)), array.shape)
        for name, array in feeds.items()
    ]
    outputs = [helper.make_tensor_value_info(name, int(DataType[kind.upper()]), shape) for name, kind in types.items()]
    held = [onnx_ir.to_proto(onnx_ir.tensor(array, name=name)) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_IR_VERSION[opset])
    onnx.checker.check_model(model, full_check=True)
    return model


def check(case: Case) -> str:
    """Compare the lowered model with the expected codes; return the reason if castsmith refused it."""
    result = castsmith.optimize(case.model, target=case.target)
    errors = [each.message for each in result.diagnostics if each.severity is Severity.ERROR]
    if errors:
        return errors[0]
    if any(each.severity is Severity.ERROR for each in castsmith.check(result.model, target=case.target)):
        raise AssertionError(f"{case.text}: the target refuses the result")
    model = onnx_ir.to_proto(result.model)
    found = dict(zip(case.types, run(session(model, case.level), case.feeds), strict=True))
    free = any(rewrite.effect is Effect.BIT_EXACT_BUT_NAN for rewrite in result.rewrites)
    for name, codes in case.wanted.items():
        kind = case.types[name]
        got = found[name].view(oracle.unsigned(kind)).reshape(-1).tolist()
        for index, (ours, wanted) in enumerate(zip(got, codes, strict=True)):
            both = oracle.decode(kind, ours).kind == oracle.decode(kind, wanted).kind == "nan"
            if ours != wanted and not (free and both):
                raise AssertionError(f"{case.text}: element {index} of {name} is {ours:#x}, expected {wanted:#x}")
    return ""


def _block_of(place: tuple[int, ...], blocks: tuple[int, ...], axis: int, block: int) -> int:
    inside = tuple(each // block if i == axis else each for i, each in enumerate(place))
    return int(np.ravel_multi_index(inside, blocks))


def _finite(rng: Random, name: str) -> int:
    """Return a code of a finite number."""
    bits = oracle.INTS[name].bits if name in oracle.INTS else DataType[name.upper()].bitwidth
    while True:
        code = rng.getrandbits(bits)
        if name in oracle.INTS or oracle.decode(name, code).kind == "number":
            return code


def _scale(rng: Random, name: str) -> int:
    """Return the code of a positive number between 2**-7 and 2**7."""
    if name == "float8e8m0":
        return rng.randrange(127 - 7, 127 + 8)
    return _code(name, rng.uniform(1, 2) * 2.0 ** rng.randrange(-7, 7))


def _near(rng: Random, kind: str, name: str, scale: float) -> int:
    """Return the code of x: mostly within the range of the quantized type, some on its ties, some far outside."""
    largest = (
        oracle.INTS[name].high if name in oracle.INTS else float(oracle.decode(name, oracle.FLOATS[name].top).size)
    )
    how = rng.random()
    size = rng.uniform(-1.3, 1.3) * largest
    if how < 0.4:
        size = math.copysign(2.0 ** rng.uniform(-8, math.log2(largest)), size)
    elif how < 0.6:
        size = round(size * 4) / 4
    return _code(kind, size * scale)


def _code(kind: str, x: float) -> int:
    with np.errstate(over="ignore"):
        array = np.array([x], np.float32).astype(DataType[kind.upper()].numpy())
    return int(array.view(oracle.unsigned(kind))[0])


def _array(name: str, codes: list[int], shape: tuple[int, ...]) -> Array:
    if name in oracle.FLOATS:
        return oracle.array_of(name, codes).reshape(shape)
    return np.array([_integer(name, code) for code in codes]).astype(oracle.INTS[name].dtype).reshape(shape)


def _integer(name: str, code: int) -> int:
    row = oracle.INTS[name]
    return code - 2**row.bits if code > row.high else code


def main(count: int, first: int = 0) -> None:
    """Check the models of these seeds, and print what was drawn."""
    drawn, refused = Counter[str](), Counter[str]()
    for seed in range(first, first + count):
        case = draw(seed, onnx.defs.onnx_opset_version())
        try:
            reason = check(case)
        except Exception as error:
            error.add_note(case.text)
            raise
        refused.update([f"refused: {reason}"] if reason else [])
        drawn.update(f"{key} {value}" for key, value in case.used.items())
    print(f"{count} models, {refused.total()} refused")
    for name, number in (*sorted(drawn.items()), *refused.most_common(20)):
        print(f"{number:6} {name}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
