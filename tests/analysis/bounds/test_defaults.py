"""Ranges that inputs have by default."""

from __future__ import annotations

import onnx

from castsmith import bounds
from tests.analysis.bounds.test_analysis import model_of


def test_masks_and_images_have_a_range_by_default() -> None:
    model = model_of("f = Cast <to = 1> (attention_mask) y = Mul (f, x)", "int64[2,4] attention_mask, float[2,4] x")
    found = bounds(model, ranges={"x": (0, 5)})["y"]
    assert (found.how, found.low, found.high) == ("proven", 0.0, 5.0)
    assert found.assumes == ("attention_mask is 0 or 1, as its name says",)
    assert bounds(model, ranges={"x": (0, 5), "attention_mask": (0, 3)})["y"].high == 15.0
    other = model_of("f = Cast <to = 1> (unmasked) y = Mul (f, x)", "int64[2,4] unmasked, float[2,4] x")
    assert bounds(other, ranges={"x": (0, 5)})["y"].high > 1e19
    image = model_of("y = Neg (x)", "float[1,3,4,4] x")
    onnx.helper.set_model_props(image, {"Image.NominalPixelRange": "NominalRange_0_255"})
    assert bounds(image)["y"].low == -255.0
    assert bounds(image)["y"].assumes
