"""Heal a model that computes in float16 already: what float16 does not hold is computed in float, and nothing else.

The model is widened to float, which is exact, and both are run on inputs. Where float16 goes wrong
(`castsmith.lowering.fault_search`) the nodes are computed in float, and a minimum cut places the casts. What is wrong
only once the rest is right is found in the next round.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.ops.table import CASTS, traits_of
from castsmith.ir.walks import all_nodes
from castsmith.lowering.accuracy import Inputs, Reference, measure, reference
from castsmith.lowering.fault_search import faults
from castsmith.lowering.faults import Fault
from castsmith.lowering.results import ConvertResult
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.precision.patterns import Pattern, exact_pattern
from castsmith.passes.precision.run import ConvertPrecision
from castsmith.passes.simplify.facts import NAME as SIMPLIFY
from castsmith.targets.target import Target

_RULES = PromotionRules(promote_unsafe=True)
_MOST_ROUNDS = 8
"""Each round finds at least one more node, and the tests need 3; what is left then is in the measured error."""
_WIDE = (DataType.FLOAT, DataType.DOUBLE, DataType.BFLOAT16)


def computes_in_half(model: onnx_ir.Model) -> bool:
    """True if most nodes that compute with floating-point numbers do so in float16."""
    types, count = infer_element_types(model, _RULES), Counter[DataType | None]()
    for node in all_nodes(model):
        row = traits_of(node.domain, node.op_type)
        if row.moves is None and node.op_type not in CASTS and node.op_type != "Constant":
            count.update({types.type_of(value) for value in node.outputs})
    return count[DataType.FLOAT16] > sum(count[dtype] for dtype in _WIDE)


def widened(model: onnx_ir.Model) -> onnx_ir.Model:
    """Return a copy that computes the same in float, its inputs and outputs included."""
    step = ConvertPrecision(DataType.FLOAT, sources=(DataType.FLOAT16,), lower=("*",), io="convert")
    return step(model.clone()).model


def reference_of(
    model: onnx_ir.Model,
    inputs: Inputs | None = None,
    dims: Mapping[str, int] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    target: Target | None = None,
) -> Reference:
    """Return the widened model with its values on inputs of the model itself."""
    return reference(widened(model), inputs, dims, ranges=ranges, of=model, target=target)


def half_faults(
    model: onnx_ir.Model,
    inputs: Inputs | None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    target: Target | None = None,
) -> list[Fault]:
    """Return the nodes that go wrong in float16 on inputs of the model; none of one that is not in float16."""
    if not computes_in_half(model):
        return []
    return faults(reference_of(model, inputs, ranges=ranges, target=target), model)


def unless_tidied(result: ConvertResult, model: onnx_ir.Model) -> ConvertResult:
    """Return the result; with the model as it was if nothing is done to it but to merge nodes and to drop casts."""
    if all(rewrite.pass_name == SIMPLIFY for rewrite in result.rewrites):
        return replace(result, model=model, rewrites=[])
    return result


@dataclass(frozen=True)
class Healing:
    """How to heal.

    Attributes:
        target: The runtime whose kernels count.
        keep: The patterns of nodes to leave in float16.
        attempt: Changes a model by a step, and cleans up.
    """

    target: Target | None
    keep: tuple[Pattern, ...]
    attempt: Callable[[onnx_ir.Model, ConvertPrecision], ConvertResult]

    def heal(self, model: onnx_ir.Model, baseline: Reference) -> ConvertResult:
        """Return the healed model, measured; the model as it is if nothing is wrong."""
        reasons: dict[tuple[str, str], set[str]] = defaultdict(set)
        untouched = self.attempt(model.clone(), self._step(reasons))
        result = unless_tidied(untouched, model)
        healed = list[Fault]()
        for _ in range(_MOST_ROUNDS):
            done = set[str]().union(*reasons.values())
            fresh = [fault for fault in faults(baseline, result.model) if fault.name and fault.name not in done]
            if not fresh:
                break
            healed += fresh
            for fault in fresh:
                reasons[fault.reason, fault.node.op_type].add(fault.name)
            result = self.attempt(model.clone(), self._step(reasons))
        error = measure(baseline, result.model)
        before = measure(baseline, model) if healed else error
        return replace(result, error=error, before=before, faults=tuple(healed))

    def _step(self, reasons: Mapping[tuple[str, str], set[str]]) -> ConvertPrecision:
        lower = tuple(exact_pattern(names, why, operator) for (why, operator), names in reasons.items())
        half = (DataType.FLOAT16,)
        return ConvertPrecision(DataType.FLOAT, self.target, sources=half, keep=self.keep, lower=lower, sparing=True)
