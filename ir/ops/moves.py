"""Operators that only move elements about, or never look at them, whatever their type."""

from __future__ import annotations

MOVES = frozenset({
    "CenterCropPad", "Compress", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape", "DepthToSpace",
    "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "If", "Loop", "OneHot", "Optional",
    "OptionalGetElement", "OptionalHasElement", "Pad", "Reshape", "ReverseSequence", "Scan", "Scatter",
    "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
    "SequenceInsert", "SequenceLength", "Shape", "Size", "Slice", "SpaceToDepth", "Split", "SplitToSequence", "Squeeze",
    "TensorScatter", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
})  # fmt: skip
"""Zeros that Pad, Trilu, CenterCropPad, Compress and ConstantOfShape bring in are +0, whose code is 0; float8e8m0 has
no zero, and 2**-127, which has that code there, is what a cast makes of one."""
