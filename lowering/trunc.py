"""lower-trunc: QONNX Trunc as standard operators, for runtimes that know no other domain.

Exact: each step of the operator becomes one operator, in the order and the type in which QONNX computes, so the bits
are the qonnx executor's; signs of zero are kept where a runtime's optimizer would lose them. Refused: bit widths, or
for version 2 scales, that are no constants, since the power of two between them must be known; opsets before 11,
which have no Round.

    y = qonnx.custom_op.general.Trunc <rounding_mode = "FLOOR"> (x, scale, zeropt, in_bitwidth, out_bitwidth)
becomes
    Div (x, scale), Add zeropt, Round, Div by 2**(in_bitwidth - out_bitwidth), Floor, Sub zeropt, Mul scale
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.naming import Namer
from castsmith.ir.passing import RewritePass
from castsmith.ir.qonnx import TRUNC_DOMAINS, TruncNode, is_trunc, read_trunc, trunc_operands
from castsmith.ir.records import Diagnostic, Refusal, RewriteResult, Severity
from castsmith.ir.rewriting import Replacement, all_nodes, run_rules
from castsmith.ir.schemas import opset_of
from castsmith.ir.scopes import drop_unused_domains, imports_by_scope
from castsmith.ir.targets import Target
from castsmith.ir.text import site_of
from castsmith.lowering.builder import Builder, new_constants
from castsmith.lowering.qonnx_steps import add_zero_point, clip, combine
from castsmith.lowering.trunc_rounding import round_as
from castsmith.numerics.trunc import clip_bounds, power_of_two

NAME = "lower-trunc"
_FIRST_OPSET = 11

_FOR_RATIO = {
    1: ("in_bitwidth", "out_bitwidth"),
    2: ("scale", "in_bitwidth", "out_bitwidth", "out_scale"),
}
"""What must be constant, by version, because the power of two is made of it."""


@dataclass(frozen=True)
class LowerTrunc(RewritePass):
    """Lower every Trunc of the QONNX domains to standard operators. No target that is known runs them itself."""

    target: Target

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        imports = imports_by_scope(model)

        def rule(node: onnx_ir.Node) -> Replacement | Refusal | None:
            return lower(node, imports[node.graph]) if is_trunc(node) and node.graph is not None else None

        guessed = [
            _guessed(node)
            for node in all_nodes(model)
            if is_trunc(node) and node.graph is not None and read_trunc(node, imports[node.graph]).guessed
        ]
        result = run_rules(model, NAME, Namer(model), rule)
        result.records.diagnostics += guessed
        drop_unused_domains(model, TRUNC_DOMAINS)
        return result


def lower(node: onnx_ir.Node, imports: Mapping[str, int]) -> Replacement | Refusal:
    """The operators that stand for one Trunc."""
    meaning = read_trunc(node, imports)
    operands = trunc_operands(node, meaning.version)
    if (opset_of(imports, "") or 0) < _FIRST_OPSET:
        return Refusal(NAME, "lower-trunc", site_of(node), f"Round needs opset {_FIRST_OPSET}")
    known = {name: tensor.numpy() for name, value in operands.items() if (tensor := constant_tensor(value)) is not None}
    if missing := set(_FOR_RATIO[meaning.version]) - known.keys():
        return Refusal(NAME, "lower-trunc", site_of(node), f"{' and '.join(sorted(missing))} must be constant")
    return _expand(node, meaning, operands, known)


def _expand(
    node: onnx_ir.Node, meaning: TruncNode, operands: dict[str, onnx_ir.Value], known: dict[str, NDArray[Any]]
) -> Replacement:
    constants: list[onnx_ir.Value] = []
    build = Builder(new_constants(constants, f"{node.outputs[0].name}_"))
    parameters = {"scale": None} | {name: known[name] for name in _FOR_RATIO[meaning.version]}
    t = build.constant(np.asarray(power_of_two(**parameters)), "ratio")
    q = combine(build, "Div", operands["x"], operands["scale"])
    q = build.op("Round", add_zero_point(build, q, operands["zero_point"], known.get("zero_point")))
    y = combine(build, "Div", q, t)
    if meaning.version == 2:
        y = clip(build, y, *clip_bounds(known["out_bitwidth"], signed=meaning.signed, narrow=meaning.narrow))
    y = round_as(build, y, meaning.rounding_mode)
    if known.get("zero_point") is None or known["zero_point"].any():
        zero = operands["zero_point"]
        y = combine(build, "Sub", y, zero if meaning.version == 1 else combine(build, "Div", zero, t))
    y = combine(build, "Mul", y, operands["scale" if meaning.version == 1 else "out_scale"])
    y = build.cast(y, node.outputs[0].dtype or DataType.FLOAT)
    build.nodes[-1].outputs[0].name = node.outputs[0].name
    reason = f"QONNX Trunc version {meaning.version}, {meaning.rounding_mode}, step by step in standard operators"
    return Replacement("lower-trunc", reason, tuple(build.nodes), tuple(constants), outputs=(y,))


def _guessed(node: onnx_ir.Node) -> Diagnostic:
    message = f"the domain {node.domain} is not imported, so the version of Trunc follows from its number of inputs"
    help = "import the domain with version 1 or 2"
    return Diagnostic("trunc-version-guessed", Severity.WARNING, site_of(node), message, help)
