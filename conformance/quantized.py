"""Vectors of QuantizeLinear and DequantizeLinear, per tensor, per axis and in blocks, and of QONNX's Trunc."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.conformance.values import WHOLE_BITS, scaled, values_for
from castsmith.conformance.vectors import OLDEST_OPSET, Attribute, Operand, Vector
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
from castsmith.numerics.quantize.status import judge_dequantize, judge_quantize
from castsmith.numerics.status import Span
from castsmith.numerics.trunc import ROUNDING_MODES, trunc
from castsmith.numerics.types import Kind, element_type, type_name

Array = npt.NDArray[Any]

_DATA = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT32)
_SCALES = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT8E8M0)
_CHANGES = (19, 21, 23, 24, 25, 28)
"""Versions of the operators after the first that models here import."""
_BLOCK = 8


@dataclass(frozen=True, slots=True)
class _Form:
    """Scales and zero point of one vector; the scales are numbers that are rounded to the type of the scale.

    `axis` is None for one scale, else the vector has rows along axis 0 that are quantized alike, or in blocks.
    """

    name: str
    scales: tuple[float, ...]
    zero: int = 0
    axis: int | None = None
    block: int = 0


_FORMS = (
    _Form("half", (0.5,)),
    _Form("tenth", (0.1,), 3),
    _Form("small", (2.0**-12,), 1),
    _Form("axis", (0.5, 0.1, 3.0), 1, axis=0),
    _Form("blocks", (0.5, 0.25, 2.0, 0.125), axis=1, block=_BLOCK),
)


def quantize_vectors(types: Sequence[DataType], opset: int | None = None) -> Iterator[Vector]:
    """Yield the vectors of QuantizeLinear to each quantized type, from each type that can be quantized."""
    for source, target, form in itertools.product(_DATA, types, _FORMS):
        row = element_type(target)
        if source not in types or row.since.quantized is None:
            continue
        for saturate in (True, False) if row.kind is Kind.FLOATING and row.bits == 8 else (True,):
            name = f"quantizelinear_{type_name(source)}_to_{type_name(target)}_{form.name}"
            name += "" if saturate else "_no_saturate"
            yield from _by_opset(partial(_quantized, name, source, target, form, saturate), opset)


def dequantize_vectors(types: Sequence[DataType], opset: int | None = None) -> Iterator[Vector]:
    """Yield the vectors of DequantizeLinear from each quantized type, with each type of scale."""
    for source, scale, form in itertools.product(types, _SCALES, _FORMS):
        if scale not in types or (source is not DataType.INT32 and element_type(source).since.quantized is None):
            continue
        name = f"dequantizelinear_{type_name(source)}_by_{type_name(scale)}_{form.name}"
        yield from _by_opset(partial(_dequantized, name, source, scale, form), opset)


Maker = Callable[[int], Vector]
"""Makes a vector at an opset; raises CastsmithError where the operator lacks the types or attributes."""


def _by_opset(make: Maker, opset: int | None) -> Iterator[Vector]:
    """Yield the vector at `opset`, or at the first and at each later opset at which its output changes."""
    vectors: list[Vector] = []
    for first in (OLDEST_OPSET, *_CHANGES) if opset is None else (opset,):
        try:
            vector = make(first)
        except CastsmithError:
            continue
        if not vectors or not _alike(vectors[-1], vector):
            vectors.append(vector)
    ends = [vector.opset - 1 for vector in vectors[1:]] + [NEWEST_OPSET if opset is None else opset]
    for vector, end in zip(vectors, ends, strict=False):
        yield replace(vector, name=f"{vector.name}_opset{vector.opset}", last_opset=end)


def _alike(a: Vector, b: Vector) -> bool:
    return a.output.tobytes() == b.output.tobytes() and list(a.spans) == list(b.spans)


def _shaped(data: Array, form: _Form) -> Array:
    """Return the data in the shape that the form needs: rows of equal length, repeated for each scale."""
    if form.axis is None:
        return data
    if form.axis == 0:
        return np.stack([data] * len(form.scales))
    some = data[:: max(1, data.size // 256)]
    rows = np.resize(some, (-(-some.size // _BLOCK), _BLOCK))
    return np.tile(rows, (1, len(form.scales)))


def _parameters(
    shape: tuple[int, ...], scale: DataType, zero: DataType | None, form: _Form
) -> tuple[Array, Array | None]:
    """Return the scale and the zero point of a form, in the shapes that it needs."""
    numbers = cast(np.array(form.scales if form.axis is not None else form.scales[0]), scale, round_mode="nearest")
    if form.block:
        numbers = np.broadcast_to(numbers, (shape[0], numbers.size)).copy()
    if zero is None:
        return numbers, None
    row = element_type(zero)
    point = min(form.zero, int(row.max)) if row.kind is Kind.INTEGER else 0
    return numbers, np.full(numbers.shape, point).astype(zero.numpy())


def _operands(name: str, names: tuple[str, str, str], arrays: tuple[Array, Array, Array | None]) -> list[Operand]:
    operands = zip(names, arrays, ("data", "scale", "zero_point"), strict=True)
    return [Operand(label, array, f"{name}_{part}") for label, array, part in operands if array is not None]


def _attributes(form: _Form) -> dict[str, Attribute]:
    axis: dict[str, Attribute] = {"axis": 0} if form.axis == 0 else {}
    return {**axis, "block_size": form.block} if form.block else axis


def _quantized(name: str, source: DataType, target: DataType, form: _Form, saturate: bool, opset: int) -> Vector:
    scale_type = DataType.FLOAT if source is DataType.INT32 and not 19 <= opset < 23 else source
    data = _shaped(scaled(source, target, form.scales[0], form.zero), form)
    if element_type(scale_type).kind is Kind.INTEGER:  # int32 scales, of which only whole ones are numbers
        scale, zero = _parameters(data.shape, DataType.FLOAT, target, form)
        scale = np.maximum(np.rint(scale), 1).astype(np.int32)
    else:
        scale, zero = _parameters(data.shape, scale_type, target, form)
    attributes = _attributes(form)
    settings: dict[str, Any] = {**attributes, "saturate": saturate, "opset": opset}
    operands = _operands(f"{name}_by_{type_name(scale_type)}", ("x", "y_scale", "y_zero_point"), (data, scale, zero))
    clause = "QuantizeLinear: saturate(round(x / y_scale) + y_zero_point), ties to even; to floats as Cast does"
    output = quantize_linear(data, scale, zero, **settings)
    spans = judge_quantize(data, scale, zero, **settings).spans()
    attributes |= {} if saturate else {"saturate": 0}
    return Vector(name, "QuantizeLinear", opset, opset, attributes, operands, output, spans, clause)


def _dequantized(name: str, source: DataType, scale_type: DataType, form: _Form, opset: int) -> Vector:
    attributes = _attributes(form)
    if scale_type is DataType.FLOAT8E8M0:
        attributes["output_dtype"] = int(DataType.FLOAT)
    data = _shaped(values_for(source, DataType.FLOAT, whole_bits=WHOLE_BITS if form is _FORMS[1] else 8), form)
    with_zero = element_type(source).kind is Kind.INTEGER and source is not DataType.INT32
    scale, zero = _parameters(data.shape, scale_type, source if with_zero else None, form)
    settings: dict[str, Any] = {**attributes, "opset": opset}
    operands = _operands(name, ("x", "x_scale", "x_zero_point"), (data, scale, zero))
    clause = "DequantizeLinear: (x - x_zero_point) * x_scale"
    output = dequantize_linear(data, scale, zero, **settings)
    spans = judge_dequantize(data, scale, zero, **settings).spans()
    return Vector(name, "DequantizeLinear", opset, opset, attributes, operands, output, spans, clause)


_QONNX_DOMAIN = "qonnx.custom_op.general"
_TRUNC_INPUTS = ("x", "scale", "zeropt", "in_bitwidth")


def trunc_vectors() -> Iterator[Vector]:
    """Yield the vectors of QONNX's Trunc, both versions, in every rounding mode."""
    ticks = np.arange(-160, 161, dtype=np.float32) / np.float32(2)
    for mode, (zero, out_width) in itertools.product(ROUNDING_MODES, ((0.0, 4), (3.0, 2), (0.0, 8))):
        operands = [np.float32(0.5), np.float32(zero), np.float32(8), np.float32(out_width)]
        yield _trunc_vector(mode, 1, ticks, operands, {})
        for signed, narrow in itertools.product((1, 0), repeat=2):
            outer = np.float32(0.5 * 2.0 ** (8 - out_width))
            flags: dict[str, Attribute] = {"signed": signed, "narrow": narrow}
            yield _trunc_vector(mode, 2, ticks, [*operands[:3], outer, operands[3]], flags)


def _trunc_vector(
    mode: str, version: int, x: Array, operands: Sequence[np.float32], flags: Mapping[str, Attribute]
) -> Vector:
    names = (*_TRUNC_INPUTS, "out_bitwidth") if version == 1 else (*_TRUNC_INPUTS, "out_scale", "out_bitwidth")
    words = [f"{key}{value}" for key, value in flags.items()]
    zero, width = int(operands[1]), int(operands[-1])
    name = "_".join([f"trunc_v{version}", mode.lower(), f"zero{zero}", f"bits{width}", *words])
    inputs = [Operand("x", x, "trunc_ticks")]
    inputs += [
        Operand(label, np.array(operand), f"{name}_{label}") for label, operand in zip(names[1:], operands, strict=True)
    ]
    settings: dict[str, Any] = {"rounding_mode": mode, "version": version}
    if version == 2:
        settings |= {"out_scale": operands[3], **{key: bool(value) for key, value in flags.items()}}
    output = trunc(x, operands[0], operands[1], operands[2], operands[-1], **settings)
    spans: list[Span] = []
    attributes: dict[str, Attribute] = {"rounding_mode": mode, **flags}
    clause = f"QONNX Trunc, version {version}, as its document and qonnx 1.0.0 compute it"
    return Vector(
        name, "Trunc", OLDEST_OPSET, NEWEST_OPSET, attributes, inputs, output, spans, clause, _QONNX_DOMAIN, version
    )
