"""Calls of model-local functions with parameters: the function with the attributes of one call in their place."""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir

from castsmith.ir.walks import nodes_of

Functions = dict[Hashable, onnx_ir.Function]


def bound_function(function: onnx_ir.Function, node: onnx_ir.Node, known: Functions) -> onnx_ir.Function:
    """The function as `node` calls it: itself where it has no parameters, else a copy that `known` keeps.

    A parameter that the call leaves out has the function's default; without one the attributes that refer to it are
    left out, as the standard says.
    """
    if not function.attributes:
        return function
    given = {name: attribute for name, attribute in node.attributes.items() if not attribute.is_ref()}
    values = {name: given.get(name) or default for name, default in function.attributes.items()}
    key = (function, *((name, attribute.type, repr(attribute.value)) for name, attribute in values.items()))
    if key not in known:
        copy = function.clone()
        for inner in nodes_of(copy):
            _bind(inner, {name: a for name, a in values.items() if a.value is not None})
        known[key] = copy
    return known[key]


def _bind(node: onnx_ir.Node, values: dict[str, onnx_ir.Attr]) -> None:
    for name, attribute in list(node.attributes.items()):
        if not attribute.is_ref():
            continue
        value = values.get(attribute.ref_attr_name or "")
        if value is None:
            del node.attributes[name]
        else:
            node.attributes[name] = onnx_ir.Attr(name, value.type, value.value)
