"""Default ranges of inputs: masks, and images whose metadata state the range of their pixels.

A mask of integers is 0 or 1. ONNX defines metadata for images: an input whose type has the denotation `IMAGE`, and the
key `Image.NominalPixelRange` (onnx, docs/MetadataProps.md).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir

from castsmith.analysis.bounds.rounding import is_float, is_integer
from castsmith.analysis.inference.walk import Inference

_MASK = re.compile(r"(^|[^a-z])(\w*_)?mask([^a-z]|$)")
_PIXELS = {
    "NominalRange_0_255": (0.0, 255.0),
    "NominalRange_16_235": (16.0, 235.0),
    "Normalized_0_1": (0.0, 1.0),
    "Normalized_1_1": (-1.0, 1.0),
}
_RANGE_OF_PIXELS = "Image.NominalPixelRange"
_IMAGE = "IMAGE"
_RANK_OF_IMAGES = 4


@dataclass(frozen=True)
class Default:
    """A range that an input has by default, and why, as an assumption."""

    low: float
    high: float
    why: str


def default_ranges(model: onnx_ir.Model, inference: Inference, declared: Collection[str]) -> dict[str, Default]:
    """Return the ranges of inputs that are not declared and whose range the model shows."""
    defaults: dict[str, Default] = {}
    pixels = model.metadata_props.get(_RANGE_OF_PIXELS, "")
    images = {value.name for value in _images(model, inference)} if pixels in _PIXELS else set[str | None]()
    for value in model.graph.inputs:
        name = value.name or ""
        if name in declared or value.const_value is not None:
            continue
        if is_integer(inference.type_of(value)) and _MASK.search(name.lower()):
            defaults[name] = Default(0.0, 1.0, f"{name} is 0 or 1, as its name says")
        elif name in images:
            low, high = _PIXELS[pixels]
            defaults[name] = Default(low, high, f"{name} is between {low:g} and {high:g}, as the model's metadata say")
    return defaults


def _images(model: onnx_ir.Model, inference: Inference) -> list[onnx_ir.Value]:
    """The inputs that are images: by their denotation, else the only one of rank 4."""
    floats = [value for value in model.graph.inputs if is_float(inference.type_of(value))]
    denoted = [value for value in floats if value.type is not None and value.type.denotation == _IMAGE]
    if denoted:
        return denoted
    ranked = [value for value in floats if value.shape is not None and len(value.shape) == _RANK_OF_IMAGES]
    return ranked if len(ranked) == 1 else []
