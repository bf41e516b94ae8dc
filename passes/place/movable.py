"""Operators that only move elements: which inputs carry them, and how many elements are read and written.

A cast of every element before such an operator, or of every element after it, is the same. Zeros that Pad and Trilu
bring in by themselves are the same number in every type. Max, Min, MaxPool and Sign go by the order of elements: they
commute with casts that keep it, where there is neither NaN, of which the standard does not say what becomes of it
there, nor a zero of each sign (`castsmith.passes.place.choices`).
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir

from castsmith.ir.ops import DEFAULT_DOMAINS
from castsmith.passes.place.sizes import Sizes

_DATA: Mapping[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"), (0,)),
    **dict.fromkeys(("Slice", "Split", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"), (0,)),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Compress", "ReverseSequence"), (0,)),
    **dict.fromkeys(("Trilu", "Resize", "Upsample", "Dropout", "MaxPool", "Sign"), (0,)),
    **dict.fromkeys(("ScatterElements", "ScatterND"), (0, 2)),
    "Pad": (0, 2),
    "Where": (1, 2),
    **dict.fromkeys(("Concat", "Max", "Min"), None),
}
"""The inputs that carry elements, by operator; None: all."""

ORDER = frozenset({"Max", "Min", "MaxPool", "Sign"})
"""Operators that go by the order of elements."""

_READS_WHAT_IT_WRITES = frozenset({"Slice", "Gather", "GatherElements", "GatherND", "Compress"})


def data_inputs(node: onnx_ir.Node) -> list[int] | None:
    """The indexes of the inputs whose elements the node moves; None where it does anything else."""
    if node.domain not in DEFAULT_DOMAINS or node.op_type not in _DATA:
        return None
    if any(attribute.is_ref() for attribute in node.attributes.data.values()) or not _only_moves(node):
        return None
    indexes = _DATA[node.op_type]
    wanted = range(len(node.inputs)) if indexes is None else indexes
    return [index for index in wanted if index < len(node.inputs) and node.inputs[index] is not None]


def _only_moves(node: onnx_ir.Node) -> bool:
    """Whether the attributes and outputs of the node leave it a move."""
    attributes, inputs = node.attributes, len(node.inputs)
    match node.op_type:
        case "Pad":
            # Before opset 11 the value is an attribute, which is rounded to the type that is padded.
            return not attributes.get_float("value", 0.0)
        case "Resize" | "Upsample":
            outside = attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize"
            return attributes.get_string("mode", "nearest") == "nearest" and not outside
        case "ScatterElements" | "ScatterND":
            return attributes.get_string("reduction", "none") == "none"
        case "Dropout":
            # The third input, from opset 12 on, asks for training; opset 6 and before have `is_test`.
            return len(node.outputs) == 1 and inputs < 3 and "is_test" not in attributes
        case "MaxPool":
            return len(node.outputs) == 1
        case _:
            return True


def moves_input(node: onnx_ir.Node, index: int) -> bool:
    """Whether a node that moves elements moves those of this input; asked of one input, however many there are."""
    indexes = _DATA[node.op_type]
    return indexes is None or index in indexes


def elements_moved(node: onnx_ir.Node, indexes: list[int], sizes: Sizes) -> int:
    """The elements that the node reads and writes."""
    written = sum(sizes.of(output) for output in node.outputs)
    if node.op_type in _READS_WHAT_IT_WRITES:
        return 2 * written
    return written + sum(sizes.of(value) for index in indexes if (value := node.inputs[index]) is not None)
