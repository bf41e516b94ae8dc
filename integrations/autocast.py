"""NVIDIA ModelOpt's AutoCast: a rule that keeps in float what Castsmith's bounds say does not fit.

    from modelopt.onnx.autocast import convert_to_mixed_precision
    from castsmith.integrations.autocast import BoundsRule

    rule = BoundsRule("model.onnx", ranges={"x": (-1, 1)})
    model = convert_to_mixed_precision("model.onnx", data_max=float("inf"), custom_rule=rule)

`data_max` of infinity turns off AutoCast's own rule, which keeps every node whose values exceed 512 on random inputs.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from modelopt.onnx.autocast.nodeclassifier import NodeRuleBase
from onnx_ir import DataType

import castsmith
from castsmith.ir.io.loading import ModelLike, as_model
from castsmith.numerics.types import TypeLike
from castsmith.passes.precision.evidence import Evidence
from castsmith.passes.precision.run import parse_precision
from castsmith.verification.given import GivenInputs


class BoundsRule(NodeRuleBase):
    """Keep nodes with an operand or a result that is proven or measured not to fit the precision.

    Attributes:
        reasons: Why a value does not fit, by its name.
    """

    def __init__(
        self,
        model: ModelLike,
        *,
        to: TypeLike = "float16",
        ranges: Mapping[str, tuple[float, float]] | None = None,
        inputs: GivenInputs | None = None,
    ) -> None:
        """Bound the values of a model.

        Args:
            model: The model that AutoCast converts, or its path.
            to: float16 or bfloat16, as AutoCast's `low_precision_type`.
            ranges: Between which numbers the elements of inputs lie, by name, for bounds that hold for all of them.
            inputs: Arrays to measure values on where no bound is proven.
        """
        graph = as_model(model)
        bounds = castsmith.bounds(graph, ranges=ranges, inputs=inputs)
        misfits = Evidence(graph, parse_precision(to), bounds.get).beyond(lambda value: value.dtype == DataType.FLOAT)
        self.reasons = {value.name: why for value, why in misfits.items()}

    def _check_inner(self, node: onnx.NodeProto) -> bool:
        return any(name in self.reasons for name in (*node.input, *node.output))
