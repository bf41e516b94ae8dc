"""use-vendor: On request, write products with quantized weights as MatMulNBits of ONNX Runtime, which the target runs.

The inverse of its lowering: a MatMul or Gemm with a weight that is dequantized in blocks of 2, 4 or 8 bits becomes a
MatMulNBits; weights are exact, sums are added in another order.

    w = DequantizeLinear <axis = 0, block_size = 32> (codes, scales)
    y = MatMul (x, w)
becomes
    y = com.microsoft.MatMulNBits <K = 64, N = 8, bits = 4, block_size = 32> (x, packed, scales)
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from castsmith.ir.errors import ModelError
from castsmith.ir.records import Records, Refusal, RewriteResult, Site
from castsmith.ir.text import site_of
from castsmith.lowering.quantized.nbits import USE_MATMUL_NBITS, matmul_nbits
from castsmith.lowering.quantized.scene import Scene
from castsmith.numerics.errors import OptionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.options import Vendor, shared
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement, replace_nodes
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

NAME = "use-vendor"
_RULES = PromotionRules(promote_unsafe=True)


@dataclass(frozen=True)
class UseVendor(SessionPass):
    """Write products with quantized weights in the operator of ONNX Runtime, if the target runs it.

    Attributes:
        vendor: The domain of the operators, `com.microsoft`; none by default.
        target: The runtime that the model is for.

    Raises:
        OptionError: The target does not run operators of the domain.
    """

    codes = (USE_MATMUL_NBITS,)

    vendor: Vendor = shared("vendor")
    target: Target | None = None

    def rewrite(self, session: Session) -> RewriteResult:
        model = session.model
        if not self.vendor:
            return RewriteResult(model, False)
        if self.target is None or self.vendor not in self.target.domains:
            unlike = "" if self.target is None else f", unlike {self.target}"
            raise OptionError(f"operators of {self.vendor} (`vendor=`) need a target that runs them{unlike}.")
        if any(function.domain == self.vendor for function in model.functions.values()):
            reason = f"the model defines operators of {self.vendor}"
            refusal = Refusal(NAME, USE_MATMUL_NBITS.code, Site(model.graph.name or ""), reason)
            return RewriteResult(model, False, Records(refusals=[refusal]))
        inference = session.inference(_RULES)
        scene = Scene(session, inference, self.target)
        result = replace_nodes(session, NAME, lambda node: _written(node, scene), types=inference.types)
        if result.modified:
            _import_domain(model, self.vendor)
            session.changed()
        return result


def _written(node: onnx_ir.Node, scene: Scene) -> Replacement | Refusal | None:
    try:
        return matmul_nbits(node, scene)
    except ModelError as error:
        return Refusal(NAME, USE_MATMUL_NBITS.code, site_of(node), str(error).rstrip("."))


def _import_domain(model: onnx_ir.Model, domain: str) -> None:
    """Import the domain in every scope with an operator of it."""
    for scope in (model.graph, *model.functions.values()):
        if any(node.domain == domain for node in scope.all_nodes()):
            scope.opset_imports.setdefault(domain, 1)
            model.graph.opset_imports.setdefault(domain, 1)
