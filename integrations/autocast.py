"""NVIDIA ModelOpt's AutoCast: a rule that keeps in float what Castsmith's bounds say does not fit.

    from modelopt.onnx.autocast import convert_to_mixed_precision
    from castsmith.integrations.autocast import BoundsRule

    rule = BoundsRule("model.onnx", ranges={"x": (-1, 1)})
    model = convert_to_mixed_precision("model.onnx", data_max=float("inf"), custom_rule=rule)

`data_max` of infinity turns off AutoCast's own rule, which keeps every node whose values exceed 512 on random inputs.
"""

# The tool is not installed where types are checked: what it leaves unknown is not our error.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from modelopt.onnx.autocast.nodeclassifier import NodeRuleBase
from onnx_ir import DataType

import castsmith
from castsmith.ir.io.loading import ModelLike, as_model
from castsmith.lowering.accuracy import reference
from castsmith.lowering.faults import faults
from castsmith.numerics.types import TypeLike
from castsmith.passes.precision.constants import limits
from castsmith.passes.precision.evidence import Evidence, Known
from castsmith.passes.precision.run import parse_precision
from castsmith.verification.bounds import Array


class BoundsRule(NodeRuleBase):
    """Keep nodes with an operand or a result that does not fit the precision.

    What is proven to fit fits. Else what was measured counts, if there are inputs: a proven bound may be far from what
    a value reaches. With inputs, nodes that harm the outputs in float16 are kept too, such as those whose sums
    overflow inside.

    Attributes:
        values: Why a value does not fit, by its name.
        results: Why a node is kept whose values fit, by the name of its first result.
    """

    def __init__(
        self,
        model: ModelLike,
        *,
        to: TypeLike = "float16",
        ranges: Mapping[str, tuple[float, float]] | None = None,
        inputs: Iterable[Mapping[str, Array]] | None = None,
    ) -> None:
        """Bound the values of a model.

        Args:
            model: The model that AutoCast converts, or its path.
            to: float16 or bfloat16, as AutoCast's `low_precision_type`.
            ranges: Between which numbers the elements of inputs lie, by name, for bounds that hold for all of them.
            inputs: Sets of arrays by name, to measure values on.
        """
        graph, precision, sets = as_model(model), parse_precision(to), None if inputs is None else list(inputs)
        bounds = castsmith.bounds(graph, ranges=ranges, inputs=sets)
        most = limits(precision).overflow
        known = {
            name: Known(*bound.measured, "measured")
            if bound.measured is not None and bound.magnitude >= most
            else Known(bound.low, bound.high, bound.how)
            for name, bound in bounds.items()
        }
        evidence = Evidence(graph, precision, known.get)
        floats = {name for name, bound in bounds.items() if bound.dtype == DataType.FLOAT}
        misfits = evidence.beyond(lambda value: value.name in floats)
        self.values = {value.name: why for value, why in misfits.items()}
        self.results = dict[str, str]()
        if sets is not None and precision == DataType.FLOAT16:
            half = castsmith.convert(graph, to=precision, io="convert").model  # so that outputs keep their names
            self.results = {fault.name: fault.reason for fault in faults(reference(graph, sets), half)}

    def _check_inner(self, node: onnx.NodeProto) -> bool:
        is_named = any(name in self.values for name in (*node.input, *node.output))
        return is_named or any(name in self.results for name in node.output)
