"""Ranges that inputs have by default."""

from __future__ import annotations

import math

import onnx

from castsmith import bounds
from tests.analysis.bounds.test_analysis import model_of


def test_masks_and_images_have_a_range_by_default() -> None:
    model = model_of("f = Cast <to = 1> (attention_mask) y = Mul (f, x)", "int64[2,4] attention_mask, float[2,4] x")
    found = bounds(model, ranges={"x": (0, 5)})["y"]
    assert (found.how, found.low, found.high) == ("proven", 0.0, 5.0)
    assert found.assumes == ("attention_mask is 0 or 1, as its name says",)
    declared = bounds(model, ranges={"x": (0, 5), "attention_mask": (0, 3)})["y"]
    assert (declared.high, declared.assumes) == (15.0, ())
    other = model_of("f = Cast <to = 1> (unmasked) y = Mul (f, x)", "int64[2,4] unmasked, float[2,4] x")
    assert bounds(other, ranges={"x": (0, 5)})["y"].high > 1e19
    image = model_of("y = Neg (x)", "float[1,3,4,4] x")
    onnx.helper.set_model_props(image, {"Image.NominalPixelRange": "NominalRange_0_255"})
    assert bounds(image)["y"].low == -255.0
    assert bounds(image)["y"].assumes


_PIXELS = {
    "NominalRange_0_255": (0, 255),
    "NominalRange_16_235": (16, 235),
    "Normalized_0_1": (0, 1),
    "Normalized_1_1": (-1, 1),
}
"""The ranges of pixels that onnx defines (docs/MetadataProps.md)."""
_IMAGE = "float[1,3,4,4] x"


def _ends(
    inputs: str, pixels: str, images: tuple[str, ...] = (), constants: str = ""
) -> dict[str, tuple[float, float]]:
    """The bounds of the inputs; images: those whose denotation says so."""
    model = model_of("y = Identity (x)", inputs, constants)
    for value in model.graph.input:
        value.type.denotation = "IMAGE" if value.name in images else ""
    onnx.helper.set_model_props(model, {"Image.NominalPixelRange": pixels})
    found = bounds(model)
    return {
        value.name: (found[value.name].low, found[value.name].high)
        for value in model.graph.input
        if value.name in found
    }


def test_the_ranges_of_pixels() -> None:
    for pixels, ends in _PIXELS.items():
        assert _ends(_IMAGE, pixels) == {"x": ends}
    assert _ends(_IMAGE, "NominalRange_0_256") == {"x": (-math.inf, math.inf)}


def test_which_inputs_are_images() -> None:
    """Those that are denoted so, or the only one of rank 4."""
    one, nothing = (0, 1), (-math.inf, math.inf)
    for inputs, images, expected in (
        ("float[1,3,4] x", (), {"x": nothing}),
        ("float[1,3,4,4,4] x", (), {"x": nothing}),
        ("float[1,3,4] x", ("x",), {"x": one}),
        (f"{_IMAGE}, float[1,3,4,4] z", (), {"x": nothing, "z": nothing}),
        (f"{_IMAGE}, float[1,3,4,4] z", ("z",), {"x": nothing, "z": one}),
        (f"{_IMAGE}, float[1,3,4,4] z", ("x", "z"), {"x": one, "z": one}),
        (f"{_IMAGE}, float[1,3] z", (), {"x": one, "z": nothing}),
        (f"{_IMAGE}, uint8[1,3,4,4] z", (), {"x": one}),
        (f"{_IMAGE}, float[] z", (), {"x": one, "z": nothing}),
    ):
        found = _ends(inputs, "Normalized_0_1", images)
        assert {name: found[name] for name in expected} == expected, (inputs, images)


def test_a_default_value_counts_more_than_a_default_range() -> None:
    model = model_of("f = Cast <to = 1> (mask) y = Mul (f, x)", "int64[2] mask, float[2] x", "int64[2] mask = {3, 4}")
    assert bounds(model, ranges={"x": (1, 1)})["y"].high == 4


def test_the_names_of_masks() -> None:
    for name, is_mask in (
        ("mask", True),
        ("Mask_1", True),
        ("attention_mask", True),
        ("x_attention_mask_2", True),
        ("masked", False),
        ("unmask", False),
        ("masks", False),
        ("bitmask0", False),
    ):
        model = model_of(f"f = Cast <to = 1> ({name}) y = Neg (f)", f"int64[2,4] {name}")
        found = bounds(model)["y"]
        assert ((found.low, found.high) == (-1, 0)) == is_mask, name
    assert bounds(model_of("y = Neg (mask)", "float[2,4] mask"))["y"].low == -math.inf
