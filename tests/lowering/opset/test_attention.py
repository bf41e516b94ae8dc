"""Node tests of operators of opsets 23 and 24, moved to opsets that lack them: the bits of the reference evaluator.

`python -m tests.lowering.opset.test_attention` runs all of them at both opsets, in ONNX Runtime too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.backend.test.case.test_case import TestCase
from onnx.reference import ReferenceEvaluator

from castsmith.lowering.pipeline import optimize
from castsmith.targets.target import load_target
from tests.graphs.backend import array_of_case, node_cases
from tests.lowering.runtime import LEVELS, run, session

_NAMES = re.compile("test_(attention|rotary_embedding|rms_normalization|swish)")
_OTHERWISE = "rms_normalization"
"""The evaluator has an implementation of its own that is not the standard's function."""
_OPSETS = (22, 18)


def cases() -> Iterator[tuple[str, TestCase, onnx.ModelProto]]:
    for name, case in sorted(node_cases("").items()):
        if _NAMES.match(name) and not name.endswith("_expanded") and case.model is not None:
            yield name, case, case.model


def outcome(case: TestCase, proto: onnx.ModelProto, to: int) -> tuple[str, ...]:
    """Say how the results of the moved model relate to those of the evaluator and to the data of the test."""
    cpu = load_target("onnxruntime-cpu")
    target = replace(cpu, name="old", newest_opset=to, newest_ir_version=13, dropped={})
    result = optimize(onnx_ir.from_proto(proto), target=target)
    assert result.model.opset_imports[""] == to, result.refusals
    moved = onnx_ir.to_proto(result.model)
    onnx.checker.check_model(moved, full_check=True)
    assert case.data_sets is not None
    inputs, outputs = case.data_sets[0]
    feeds = {info.name: array_of_case(array) for info, array in zip(proto.graph.input, inputs, strict=True)}
    if any(array.dtype.name == "bfloat16" for array in feeds.values()):
        return ("bfloat16",)  # computed in float here, and in bfloat16 by the evaluator
    before: Any = ReferenceEvaluator(proto).run(None, feeds)
    found = [_relation(before, ReferenceEvaluator(moved).run(None, feeds))]
    results = run(session(moved, LEVELS[-1]), feeds)
    return (*found, _relation([array_of_case(array) for array in outputs], results))


def _relation(wanted: list[np.ndarray], got: Any) -> str:
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(wanted, got, strict=True)]
    if any(a.dtype != b.dtype or a.shape != b.shape for a, b in pairs):
        return "another type or shape"
    if all(a.tobytes() == b.tobytes() for a, b in pairs):
        return "same bits"
    wide = [(a.astype(np.float64), b.astype(np.float64)) for a, b in pairs]
    return "close" if all(np.allclose(a, b, 1e-3, 1e-3, equal_nan=True) for a, b in wide) else "other numbers"


@pytest.mark.parametrize("to", _OPSETS)
def test_node_tests_give_the_bits_of_the_reference(to: int) -> None:
    found = 0
    for name, case, proto in islice(cases(), _OPSETS.index(to), None, 8):
        got = outcome(case, proto, to)
        found += got[0] == "same bits"
        assert got[0] in ("bfloat16", "same bits", *(("close",) if _OTHERWISE in name else ())), name
        assert got[1:] in ((), ("same bits",), ("close",)), name
    assert found >= 8


def main() -> None:
    for to in _OPSETS:
        counts = Counter((_OTHERWISE in name, *outcome(case, proto, to)) for name, case, proto in cases())
        print(f"opset {to}: {sum(counts.values())} models")
        for (other, *relations), count in sorted(counts.items()):
            print(f"  {count:4} {'RMSNormalization' if other else 'others'}: {', ONNX Runtime '.join(relations)}")


if __name__ == "__main__":
    main()
