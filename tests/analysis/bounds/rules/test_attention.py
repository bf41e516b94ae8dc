"""Attention gives convex combinations of its values, unless a score or a whole row of the mask makes NaN."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import castsmith

_ATTENTION = """<ir_version: 10, opset_import: ["" : {}]> g (float[1, 2, 3, 8] q, float[1, 2, 4, 8] k,
    float[1, 2, 4, 8] v, {} m, float[1, 2, 5, 8] past) => (y, keys, values) {{
        y, keys, values = Attention <{}> (q, k, v{})
    }}"""
_RANGES = {"q": (-10.0, 10.0), "k": (-10.0, 10.0), "v": (-2.0, 3.0), "past": (-5.0, 1.0)}


def encloses(found: castsmith.Bound, low: float, high: float, beyond: float = 1e-5) -> bool:
    """True if the interval holds [low, high], and little else."""
    return low * (1 + beyond) <= found.low <= low and high <= found.high <= high * (1 + beyond)


def bound(node: str, ranges: dict[str, tuple[float, float]]) -> castsmith.Bound:
    return castsmith.bounds(onnx.parser.parse_model(node), ranges=ranges)["y"]


@pytest.mark.parametrize(
    ("opset", "mask", "attributes", "operands", "finite"),
    [
        (23, "float[3, 4]", "is_causal = 0", "", True),
        (23, "float[3, 4]", "is_causal = 1, softcap = 2.0", ", m", True),
        (23, "bool[3, 4]", "is_causal = 0", ", m", False),  # it may mask a row throughout
        (24, "bool[3, 4]", "is_causal = 0", ", m", False),
        (24, "float16[3, 4]", "is_causal = 0", ", m", False),  # of which the sum with a score is not known
        (23, "float[3, 4]", "scale = -1.0", "", False),  # whose root is NaN
        (23, "float[3, 4]", "scale = 1e37", "", False),
        (23, "float[3, 4]", "softmax_precision = 10", "", True),
        (23, "float[3, 4]", "softmax_precision = 10, scale = 100.0", "", False),
    ],
)
def test_values_are_combined(opset: int, mask: str, attributes: str, operands: str, finite: bool) -> None:
    found = bound(_ATTENTION.format(opset, mask, attributes, operands), {**_RANGES, "m": (-1e4, 0.0)})
    assert (found.how == "proven") == finite
    if finite:  # probabilities of float16 add up to more than 1
        assert encloses(found, -2, 3, 0.02 if "softmax_precision" in attributes else 1e-5)


@pytest.mark.parametrize("name", ["q", "k"])
def test_scores_that_overflow(name: str) -> None:
    text = _ATTENTION.format(23, "float[3, 4]", "is_causal = 0", ", m")
    ranges = {**_RANGES, "m": (-1.0, 0.0)}
    assert bound(text, ranges).how == "proven"
    assert bound(text, {**ranges, name: (-3.4e38, 0.0)}).how == "unknown"


@pytest.mark.parametrize(("score", "how"), [(1.0, "proven"), (1e16, "unknown")])
def test_a_mask_of_the_largest_numbers_masks(score: float, how: str) -> None:
    text = _ATTENTION.format(23, "float[3, 4]", "is_causal = 0", ", m")
    least = -float(np.finfo(np.float32).max)
    assert bound(text, {**_RANGES, "q": (-score, score), "k": (-score, score), "m": (least, 0.0)}).how == how


def test_a_rotation_holds_the_pairs_and_what_is_beyond_them() -> None:
    text = """<ir_version: 10, opset_import: ["" : 23]> g (float[1, 2, 3, 8] x, float[1, 3, 2] c, float[1, 3, 2] s)
        => (y) {{ y = RotaryEmbedding <{}> (x, c, s) }}"""
    ranges = {"x": (-4.0, 2.0), "c": (0.0, 0.25), "s": (-0.5, 0.0)}
    turned = bound(text.format("interleaved = 1"), ranges)
    assert encloses(turned, -3, 2.5)
    partial = bound(text.format("rotary_embedding_dim = 4, num_heads = 2"), ranges)
    assert encloses(partial, -4, 2.5)


def test_groups_are_normalized_by_channel_where_no_square_cancels() -> None:
    """The standard computes the variance as E[x^2] - E[x]^2: of larger numbers it may be below 0."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[1, 4, 8] x) => (float[1, 4, 8] y) {
        scale = Constant <value_floats = [1.0, 2.0, 3.0, 0.0]> ()
        offset = Constant <value_floats = [0.0, 0.0, 0.0, 50.0]> ()
        y = GroupNormalization <num_groups = 2, epsilon = 0.1> (x, scale, offset)
    }"""
    found = bound(text, {"x": (-2.0, 2.0)})
    assert found.assumes == ()
    assert encloses(found, -12, 50, 1e-3)
    wide = bound(text, {"x": (-1000.0, 1000.0)})
    assert wide.how == "unknown"
    assert wide.may_be_nan
