"""Resize of opsets 18 and 19 in the form of older ones: axes, policies of aspect ratio, antialiasing, symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.lowering.builder import Builder, dtype_of
from castsmith.lowering.opset.forms import INT64, again, first_axes, ints_of, rank_of, scattered

_NULL, _ONE = (onnx_ir.tensor(np.full(1, number, np.float32), name="number") for number in (0, 1))


def symmetric_as_half_pixel(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Resize of opset 19: half_pixel_symmetric differs where the length of a result was rounded."""
    if node.attributes.get_string("coordinate_transformation_mode") != "half_pixel_symmetric":
        return None
    lengths, (_, scales, sizes) = _lengths(node), _operands(node)
    if sizes is None or _policy(node) != "stretch":
        factors = None if scales is None else _floats(scales)
        if factors is None or not all(map(_is_whole, factors, lengths or [None] * len(factors))):
            return None
    mode = onnx_ir.AttrString("coordinate_transformation_mode", "half_pixel")
    return again(node, list(node.inputs), coordinate_transformation_mode=mode)


def _is_whole(factor: float, length: int | None) -> bool:
    """True if the length times the factor is an integer."""
    return factor == int(factor) or (length is not None and (Fraction(factor) * length).denominator == 1)


def resized_on_all_axes(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Resize of opset 18: scales, sizes and roi of all axes, of the ratio that the policy gives."""
    x = node.inputs[0]
    if x is None or ("axes" not in node.attributes and _is_plain(node)):
        return None
    (roi, scales, sizes), named = _operands(node), node.attributes.get("axes")
    if _policy(node) != "stretch":
        found = _in_proportion(build, node)
        if found is None:
            return None
        scales, sizes = found
    if node.attributes.get_int("antialias", 0) and not _never_smooths(node, scales, sizes):
        return None
    if named is not None:
        axes = first_axes(build, x, build.constant(np.array(named.as_ints(), np.int64), "axes"))
        roi, scales, sizes = _of_all_axes(build, x, axes, (roi, scales, sizes))
    if node.attributes.get_string("coordinate_transformation_mode") != "tf_crop_and_resize":
        roi = None
    attributes = dict.fromkeys(("axes", "antialias", "keep_aspect_ratio_policy"))
    return again(node, [x, roi, scales, sizes], **attributes)


_Operands = tuple[onnx_ir.Value | None, onnx_ir.Value | None, onnx_ir.Value | None]


def _operands(node: onnx_ir.Node) -> _Operands:
    """Return roi, scales and sizes; an empty constant stands for one that is left out."""
    found = [node.inputs[index] if index < len(node.inputs) else None for index in (1, 2, 3)]
    roi, scales, sizes = (None if value is None or not _is_given(value) else value for value in found)
    return roi, scales, sizes


def _is_given(value: onnx_ir.Value) -> bool:
    tensor = constant_tensor(value)
    return tensor is None or tensor.size > 0


def _policy(node: onnx_ir.Node) -> str:
    return node.attributes.get_string("keep_aspect_ratio_policy", "stretch") or "stretch"


def _is_plain(node: onnx_ir.Node) -> bool:
    return _policy(node) == "stretch" and not node.attributes.get_int("antialias", 0)


def _floats(value: onnx_ir.Value) -> list[float] | None:
    tensor = constant_tensor(value)
    return None if tensor is None else [float(each) for each in tensor.numpy().reshape(-1)]


def _lengths(node: onnx_ir.Node) -> list[int] | None:
    """Return the lengths of the axes that the node resizes; None if one is unknown."""
    shape, named = None if node.inputs[0] is None else node.inputs[0].shape, node.attributes.get("axes")
    if shape is None:
        return None
    dims: Sequence[int | onnx_ir.SymbolicDim] = list(shape)
    dims = dims if named is None else [dims[axis] for axis in named.as_ints()]
    lengths = [dim for dim in dims if isinstance(dim, int)]
    return lengths if len(lengths) == len(dims) else None


def _in_proportion(build: Builder, node: onnx_ir.Node) -> tuple[onnx_ir.Value | None, onnx_ir.Value | None] | None:
    """Return scales and sizes without a policy; None if those of no older opset give the same coordinates.

    The sizes state the ratio exactly where no length is rounded. Elsewhere the scales do, where the length of each
    result, the nearest integer, is the one that older opsets give, the integer below.
    """
    lengths, sizes = _lengths(node), ints_of(_operands(node)[2])
    if lengths is None or sizes is None or len(lengths) != len(sizes) or 0 in lengths:
        return None
    ratios = [Fraction(size, length) for size, length in zip(sizes, lengths, strict=True)]
    ratio = min(ratios) if _policy(node) == "not_larger" else max(ratios)
    if all((ratio * length).denominator == 1 for length in lengths):
        return None, build.constant(np.array([int(ratio * length) for length in lengths], np.int64), "sizes")
    factor = np.float32(ratio.numerator) / np.float32(ratio.denominator)
    exact = [Fraction(float(factor)) * length for length in lengths]
    single = [factor * np.float32(length) for length in lengths]
    if any(int(a) != int(a + Fraction(1, 2)) or int(a) != int(b) for a, b in zip(exact, single, strict=True)):
        return None
    return build.constant(np.full(len(lengths), factor), "scales"), None


def _never_smooths(node: onnx_ir.Node, scales: onnx_ir.Value | None, sizes: onnx_ir.Value | None) -> bool:
    """True if the filter of antialiasing is the plain one: of the mode linear, where no axis becomes shorter."""
    factors, wanted, lengths = None if scales is None else _floats(scales), ints_of(sizes), _lengths(node)
    if node.attributes.get_string("mode") != "linear":
        return False
    if factors is not None:
        return all(factor >= 1 for factor in factors)
    return wanted is not None and lengths is not None and all(map(int.__ge__, wanted, lengths))


def _of_all_axes(build: Builder, x: onnx_ir.Value, axes: onnx_ir.Value, of_some: _Operands) -> _Operands:
    """Return roi, scales and sizes with those of the other axes, which stay as they are."""
    (roi, scales, sizes), rank = of_some, rank_of(build, x)
    if scales is not None:
        ones = build.typed("ConstantOfShape", [rank], DataType.FLOAT, value=_ONE)
        scales = scattered(build, ones, axes, scales)
    if sizes is not None:
        sizes = scattered(build, build.typed("Shape", [x], INT64), axes, sizes)
    if roi is not None:
        kind = dtype_of(roi)
        starts = build.cast(build.typed("ConstantOfShape", [rank], DataType.FLOAT, value=_NULL), kind)
        ends = build.cast(build.typed("ConstantOfShape", [rank], DataType.FLOAT, value=_ONE), kind)
        both = build.typed("Concat", [axes, build.op("Add", axes, rank)], INT64, axis=0)
        roi = scattered(build, build.typed("Concat", [starts, ends], kind, axis=0), both, roi)
    return roi, scales, sizes
