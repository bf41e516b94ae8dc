"""The meaning of a mixed-type model: the evaluator of `verify`, with the reference implementation of ONNX as engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir
from numpy.typing import NDArray

from castsmith.ir.evaluate import Engine, Evaluator, Tensor
from castsmith.numerics.promotion.rules import PromotionRules

Array = NDArray[Any]


def evaluate(model: onnx_ir.Model, inputs: Mapping[str, Array], rules: PromotionRules | None = None) -> list[Array]:
    """The outputs of the main graph for the named inputs."""
    evaluator = Evaluator(model, rules or PromotionRules(promote_unsafe=True), Engine("reference"))
    outputs = evaluator.run(inputs).values()
    return [content.array for content in outputs if isinstance(content, Tensor)]
