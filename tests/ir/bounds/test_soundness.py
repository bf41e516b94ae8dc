"""No value of a random network is outside a proven interval, in ONNX Runtime and in the reference evaluator."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx.reference
import pytest

from castsmith import bounds
from castsmith.ir.bounds import Bounds
from tests.ir.bounds.networks import Array, Network, adversarial

_NETWORKS = int(os.environ.get("CASTSMITH_NETWORKS", "25"))
_LAYERS = 10
TWO_PASSES = "the variance is computed from the differences to the mean, not as E[x^2] - E[x]^2"


def _outside(found: Bounds, results: dict[str, Array]) -> list[str]:
    """The values with an element outside a proven bound that assumes nothing of the runtime's kernels."""
    wrong: list[str] = []
    for name, array in results.items():
        bound = found[name]
        if bound.how == "proven" and TWO_PASSES not in bound.assumes:
            inside = (array >= bound.low) & (array <= bound.high)
            if not inside.all():
                wrong.append(f"{name}: {array[~inside].reshape(-1)[0]!r} is outside [{bound.low!r}, {bound.high!r}]")
    return wrong


@pytest.mark.parametrize("seed", range(_NETWORKS))
def test_random_networks(seed: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    network = Network(seed)
    model = network.model(_LAYERS)
    found = bounds(model, ranges=network.ranges)
    assert found.count("proven") > len(found) / 2
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    rng = np.random.default_rng(seed)
    for array in adversarial(*network.ranges["x"], (2, 3, 6), rng):
        assert not _outside(found, dict(zip(names, session.run(None, {"x": array}), strict=True)))


@pytest.mark.parametrize("seed", range(min(_NETWORKS, 4)))
def test_random_networks_in_the_reference_evaluator(seed: int) -> None:
    # Older releases compute Softplus, and Mish with it, as log(exp(x) + 1), which overflows.
    network = Network(1000 + seed, without=("Softplus", "Mish"))
    model = network.model(_LAYERS)
    found = bounds(model, ranges=network.ranges)
    evaluator = onnx.reference.ReferenceEvaluator(model)
    for array in adversarial(*network.ranges["x"], (2, 3, 6), np.random.default_rng(seed)):
        given: Any = evaluator.run(None, {"x": array})
        names = [each.output[0] for each in network.nodes]
        results: dict[str, Array] = dict(zip(names, given, strict=True))
        assert not _outside(found, results)
