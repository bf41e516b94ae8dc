"""Casts to float16 and bfloat16 which the target rounds twice, by way of float: rounded once ahead of it."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import read_cast
from castsmith.ir.inference import infer_element_types
from castsmith.ir.naming import Namer
from castsmith.ir.ranges_integer import Ranges
from castsmith.ir.records import Rewrite
from castsmith.ir.rewriting import Replacement, all_nodes, apply_replacement
from castsmith.ir.schemas import opset_of
from castsmith.ir.scopes import imports_by_scope
from castsmith.ir.targets import Target, WrongCast
from castsmith.lowering.builder import Builder, new_constants
from castsmith.lowering.codes import Policy
from castsmith.lowering.sequences_round import round_in_place
from castsmith.lowering.sequences_wide import WIDE_INTEGERS, wide
from castsmith.lowering.storage import inferred_declared
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.types import HALF_TYPES, type_name

_FIRST_OPSET = 11
"""Round."""
_SOURCES = (DataType.DOUBLE, *WIDE_INTEGERS)

_Found = tuple[onnx_ir.Node, onnx_ir.Value, DataType, DataType, WrongCast]


def round_casts_once(model: onnx_ir.Model, target: Target, pass_name: str) -> list[Rewrite]:
    """Each such cast of a double or a wide integer, rounded in place in double, which then fits the type. Integers that
    are known to fit in float are left to the target."""
    inference = infer_element_types(model, PromotionRules())
    found = list[_Found]()
    imports = imports_by_scope(model)
    for node in all_nodes(model):
        like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
        meaning, x = read_cast(node, like), node.inputs[0] if node.inputs else None
        source = inference.type_of(x)
        if meaning is None or meaning.to is None or source is None or x is None or node.graph is None:
            continue
        opset = opset_of(imports[node.graph], "") or 0
        if opset < _FIRST_OPSET or meaning.to not in {*HALF_TYPES} - target.lacks or source not in _SOURCES:
            continue
        wrong = target.wrong_cast(source, meaning.to, saturate=True, opset=opset)
        if wrong is not None:
            found.append((node, x, source, meaning.to, wrong))
    ranges, namer = Ranges(inference), Namer(model)
    with inferred_declared(model, inference.types):
        return [
            apply_replacement(pass_name, node, _rounded(node, x, source, to, target.name, wrong), namer)
            for node, x, source, to, wrong in found
            if (known := ranges.get(x)) is None or not known.fits(DataType.FLOAT)
        ]


def _rounded(
    node: onnx_ir.Node, x: onnx_ir.Value, source: DataType, to: DataType, target: str, wrong: WrongCast
) -> Replacement:
    constants: list[onnx_ir.Value] = []
    build = Builder(new_constants(constants, f"{node.outputs[0].name}_"))
    rounded = round_in_place(build, wide(build, x), to, Policy())
    y = build.cast(build.cast(rounded, DataType.FLOAT), to)
    y.name = node.outputs[0].name
    reason = f"{target} casts {type_name(source)} to {type_name(to)} wrongly: {wrong.wrong}"
    return Replacement("round-in-place", reason, tuple(build.nodes), tuple(constants), outputs=(y,))
