"""use-vendor: On request, write quantized formats in operators of ONNX Runtime or TensorRT, which the target runs.

The inverse of the lowerings. With `vendor` com.microsoft a MatMul with a weight that is dequantized in blocks of 2, 4
or 8 bits becomes a MatMulNBits; weights are exact, sums are added in another order. QuantizeLinear and DequantizeLinear
of 16-bit integers and int4 become those of com.microsoft where the target's newest opset lacks the types: bit-exact.
With trt, those of float8e4m3fn and int4, and DequantizeLinear of float4e2m1, become TensorRT's.

    w = DequantizeLinear <axis = 0, block_size = 32> (codes, scales)
    y = MatMul (x, w)
becomes
    y = com.microsoft.MatMulNBits <K = 64, N = 8, bits = 4, block_size = 32> (x, packed, scales)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir

from castsmith.ir.errors import ModelError
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.records import Records, Refusal, RewriteResult, Site
from castsmith.ir.text import site_of
from castsmith.lowering.operators.scene import Scene, lower_nodes
from castsmith.lowering.quantized.nbits import USE_MATMUL_NBITS
from castsmith.lowering.quantized.tensorrt import DOMAIN
from castsmith.lowering.quantized.to_microsoft import USE_MICROSOFT_QDQ
from castsmith.lowering.quantized.to_tensorrt import USE_TENSORRT
from castsmith.numerics.errors import OptionError, present
from castsmith.passes.core.options import Vendor, shared
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import NodeRule, Replacement
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

NAME = "use-vendor"

_BY_DOMAIN: dict[str, tuple[NodeRule[Scene], ...]] = {
    CONTRIB_DOMAIN: (USE_MATMUL_NBITS, USE_MICROSOFT_QDQ),
    DOMAIN: (USE_TENSORRT,),
}
"""The rules of each domain; each raises ModelError with the reason not to write a node in it."""


@dataclass(frozen=True)
class UseVendor(SessionPass):
    """Write quantized formats in the operators of a vendor that the target runs.

    Attributes:
        vendor: The domain of the operators, `com.microsoft` or `trt`; none by default.
        target: The runtime that the model is for.

    Raises:
        OptionError: The target does not run operators of the domain.
    """

    codes = (USE_MATMUL_NBITS, USE_MICROSOFT_QDQ, USE_TENSORRT)

    vendor: Vendor = shared("vendor")
    target: Target | None = None

    def rewrite(self, session: Session) -> RewriteResult:
        model = session.model
        if not self.vendor:
            return RewriteResult(model, False)
        if self.target is None or self.vendor not in self.target.domains:
            unlike = "" if self.target is None else f", unlike {self.target}"
            raise OptionError(f"operators of {self.vendor} (`vendor=`) need a target that runs them{unlike}.")
        rules = _BY_DOMAIN[self.vendor]
        if any(function.domain == self.vendor for function in model.functions.values()):
            reason = f"the model defines operators of {self.vendor}"
            refusal = Refusal(NAME, rules[0].code, Site(model.graph.name or ""), reason)
            return RewriteResult(model, False, Records(refusals=[refusal]))
        by_operator = {operator: rule for rule in rules for operator in rule.operators or ()}
        result = lower_nodes(session, NAME, self.target, lambda node, scene: _written(node, by_operator, scene))
        if result.modified:
            _import_domain(model, self.vendor)
            session.changed()
        return result


def _written(node: onnx_ir.Node, rules: Mapping[str, NodeRule[Scene]], scene: Scene) -> Replacement | Refusal | None:
    """Return what the rule about the node's operator answers."""
    rule = rules.get(node.op_type)
    try:
        return None if rule is None else rule.apply(node, scene)
    except ModelError as error:
        return Refusal(NAME, present(rule, "the rule that refuses").code, site_of(node), str(error))


def _import_domain(model: onnx_ir.Model, domain: str) -> None:
    """Import the domain in every scope with an operator of it."""
    for scope in (model.graph, *model.functions.values()):
        if any(node.domain == domain for node in scope.all_nodes()):
            scope.opset_imports.setdefault(domain, 1)
            model.graph.opset_imports.setdefault(domain, 1)
