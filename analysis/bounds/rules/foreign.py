"""Operators of com.microsoft, which ONNX Runtime puts into optimized models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from castsmith.analysis.bounds.interval import Interval, UnknownRangeError
from castsmith.analysis.bounds.rules.arithmetic import add
from castsmith.analysis.bounds.rules.functions import gelu
from castsmith.analysis.bounds.rules.normalization import normalized
from castsmith.analysis.bounds.step import Rule, Step

_MS = "com.microsoft"


def _biased(function: Callable[[Step], Interval]) -> Rule:
    """A function of the first operand plus the second."""

    def rule(step: Step) -> Interval:
        if step.value(1) is None:
            return function(step)
        return function(replace(step, inputs=[add(step, 1)]))

    return rule


def _skip_norm(step: Step) -> list[Interval]:
    """SkipLayerNormalization and its simplified form: the norm of a sum, which is the fourth output."""
    simple = step.node.op_type.startswith("SkipSimplified")
    total, bias = add(step, 1), step.optional(3 if simple else 4)
    if bias is not None:
        total = add(replace(step, inputs=[total, bias]), 1)
    if not total.dims:
        raise UnknownRangeError
    found = normalized(step, total, [len(total.dims) - 1], step.input(2), None if simple else step.optional(3))
    results = [found, *(step.anything(index) for index in range(1, len(step.node.outputs)))]
    return [*results[:3], total] if len(results) > 3 else results


RULES: dict[tuple[str, str], Rule] = {
    (_MS, "Gelu"): gelu,
    (_MS, "FastGelu"): _biased(lambda step: gelu(step, tanh=True)),
    (_MS, "BiasGelu"): _biased(lambda step: gelu(step, tanh=False)),
    (_MS, "SkipLayerNormalization"): _skip_norm,
    (_MS, "SkipSimplifiedLayerNormalization"): _skip_norm,
}
