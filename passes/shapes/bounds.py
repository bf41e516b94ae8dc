"""Bounds of dimensions, and of the integers that are computed from shapes, for `analysis.inference.Ranges`."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.numerics.symbols import Element, high_of, low_of
from castsmith.numerics.types import Kind, element_type
from castsmith.passes.core.session import Session
from castsmith.passes.shapes.contents import FOLLOWED
from castsmith.passes.shapes.run import learned, may_find_something
from castsmith.passes.shapes.walk import Shapes


@dataclass(frozen=True)
class ShapeBounds:
    """The bounds that the symbols of shapes have."""

    shapes: Shapes

    def dims(self, value: onnx_ir.Value) -> list[int] | None:
        """Return the largest size of each dimension; None if one is unknown."""
        shape = self.shapes.shape(value)
        highs = [high for dim in shape or () if (high := self._high(dim)) is not None]
        return highs if shape is not None and len(highs) == len(shape) else None

    def elements(self, value: onnx_ir.Value) -> tuple[int, int] | None:
        """Return the least and the greatest element; None if unknown."""
        dtype, node = self.shapes.inference.type_of(value), value.producer()
        if dtype is None or element_type(dtype).kind is not Kind.INTEGER or node is None:
            return None
        if node.op_type not in FOLLOWED or node.domain not in DEFAULT_DOMAINS:
            return None
        content = self.shapes.content(value)
        elements: list[Element] = [] if content is None else content.ravel().tolist()
        lows = [low for element in elements if (low := low_of(element)) is not None]
        highs = [high for element in elements if (high := self._high(element)) is not None]
        return (min(lows), max(highs)) if elements and len(lows) == len(highs) == len(elements) else None

    def _high(self, element: Element) -> int | None:
        """Return the upper bound: that of the symbols, or of the type that is known to hold the element."""
        high = high_of(element)
        return high if high is not None else self.shapes.fitting(element)


def ranges_of(session: Session, inference: Inference, largest_dim: int) -> Ranges:
    """Return the ranges of the values of the model.

    Shapes are inferred on demand, and all that is computed from them is followed where a cast makes integers narrower.
    """
    shapes = Shapes(session.model, inference, session.imports, session.holders, largest_dim)
    if _narrows(session, inference) and may_find_something(session.survey):
        shapes = learned(shapes, session.nodes)
    bounds = ShapeBounds(shapes)
    return Ranges(inference, largest_dim, bounds) if largest_dim else Ranges(inference, bounds=bounds)


def _narrows(session: Session, inference: Inference) -> bool:
    """True if a Cast makes int32 of int64."""
    return any(
        inference.type_of(node.outputs[0]) == DataType.INT32 and inference.type_of(node.inputs[0]) == DataType.INT64
        for node in session.nodes_of({"Cast"})
    )
