"""Every hazard and wrong fusion that the files of the two runtimes state has a model that shows it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from castsmith.numerics.types import type_name
from castsmith.targets.target import load_target
from tests.sampling import QUICK, sampled
from tests.targets.hazards import PROBES, found
from tests.versions import ONNX, ONNXRUNTIME

MODULES = {"onnxruntime-cpu": "onnxruntime", "openvino-cpu": "openvino"}
GONE = "gone since"
ON_SOME_PROCESSORS = {"float32-is-bfloat16", "greater-of-nan-is-true"}
CASES = [(target, name) for target, probes in PROBES.items() for name in probes if name not in ON_SOME_PROCESSORS]


@pytest.mark.parametrize("name", PROBES)
def test_every_hazard_has_its_model(name: str) -> None:
    target, shown = load_target(name), [each for each in PROBES[name] if not each.startswith(GONE)]
    assert {each for each in shown if ":" not in each} == set(target.hazards)
    fused = [each.partition(":")[0::2] for each in shown if ":" in each]
    for entry in target.wrong_fusions:
        types = {type_name(dtype) for dtype in entry.types}
        found = {word.strip(",") for dtype, what in fused if dtype in types for word in what.split()}
        assert entry.operators <= found


@pytest.mark.skipif(ONNXRUNTIME != (1, 32) or ONNX < (1, 23), reason="what the files say is of these releases")
@pytest.mark.parametrize(("target", "name"), sampled("hazards", CASES, 2 if QUICK else 4, cover=lambda case: case[:1]))
def test_the_runtime_has_the_hazard(target: str, name: str) -> None:
    if find_spec(MODULES[target]) is None:
        pytest.skip(f"needs {MODULES[target]}")
    assert found(target, name).startswith("gone" if name.startswith(GONE) else "there")
