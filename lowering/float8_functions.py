"""Model-local functions that handle codes are inlined: a function has neither types of its own nor initializers."""

from __future__ import annotations

import onnx_ir
from onnx_ir.passes.common import InlinePass

from castsmith.ir.kept_types import outdated
from castsmith.ir.ops import named_types
from castsmith.ir.records import Rewrite, Site
from castsmith.lowering.float8_needs import Coded, Types, is_coded, touches_coded


def functions_with_codes(model: onnx_ir.Model, types: Types, coded: Coded) -> set[onnx_ir.OperatorIdentifier]:
    """The functions that take or make values of these types, and all that call one of them.

    All functions, where one takes a type as an argument of the call: then types beyond it are not known.
    """
    if any(takes_a_type(node) for function in model.functions.values() for node in function.all_nodes()):
        return set(model.functions)
    found = {name for name, function in model.functions.items() if _handles(function, types, coded)}
    while True:
        callers = {
            name
            for name, function in model.functions.items()
            if any(node.op_identifier() in found for node in function.all_nodes())
        }
        if callers <= found:
            return found
        found |= callers


def inline_functions(model: onnx_ir.Model, names: set[onnx_ir.OperatorIdentifier], pass_name: str) -> Rewrite:
    """Put the nodes of these functions in place of each call."""
    InlinePass(lambda function: function.identifier() in names)(model)
    outdated(model)
    text = ", ".join(sorted(f"{domain}.{name}" for domain, name, _ in names))
    reason = "what becomes of codes in a function depends on each call"
    return Rewrite(pass_name, "inline-functions", Site(model.graph.name or ""), text, "its nodes, at each call", reason)


def takes_a_type(node: onnx_ir.Node) -> bool:
    """Whether an attribute that names a type is a parameter of the function."""
    return None in named_types(node).values()


def _handles(function: onnx_ir.Function, types: Types, coded: Coded) -> bool:
    return any(is_coded(value, types, coded) for value in function.inputs) or any(
        touches_coded(node, types, coded) for node in function.all_nodes()
    )
