"""Models that compute in float16 already, widened to float, which is exact, and what goes wrong in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.ops.table import CASTS, traits_of
from castsmith.ir.walks import all_nodes
from castsmith.lowering.accuracy import Inputs, Reference, reference
from castsmith.lowering.faults import Fault, faults
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.precision.run import ConvertPrecision
from castsmith.targets.target import Target

_RULES = PromotionRules(promote_unsafe=True)
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
