"""The meaning of a mixed-type model: the evaluator of `verify`, with the reference implementation of ONNX as engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir
from numpy.typing import NDArray

from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.conversions import Tensor
from castsmith.verification.evaluate.engines import Engine
from castsmith.verification.evaluate.evaluator import Evaluator

Array = NDArray[Any]


def evaluator(model: onnx_ir.Model, rules: PromotionRules | None = None) -> Evaluator:
    """The model, prepared once for all its runs."""
    return Evaluator(model, rules or PromotionRules(promote_unsafe=True), Engine("reference"))


def outputs_of(prepared: Evaluator, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of the main graph for the named inputs."""
    return [content.array for content in prepared.run(inputs).values() if isinstance(content, Tensor)]


def evaluate(model: onnx_ir.Model, inputs: Mapping[str, Array], rules: PromotionRules | None = None) -> list[Array]:
    """The outputs of the main graph for the named inputs, of a model that is run once."""
    return outputs_of(evaluator(model, rules), inputs)
