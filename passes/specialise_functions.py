"""Model-local functions that are called with different types, and need conversions inside: one function for each.

A function's body has one set of types, so where its operands disagree no one conversion fits all calls. Each call with
other types gets a copy of the function under another name.
Functions that need nothing converted stay as they are, whatever they are called with.
"""

from __future__ import annotations

import onnx_ir

from castsmith.ir.calls import Signature, free_identifier, signature_text
from castsmith.ir.inference import Inference, infer_element_types
from castsmith.ir.records import Effect, Records, Rewrite
from castsmith.ir.text import node_text, site_of
from castsmith.numerics.promotion import PromotionRules


def specialise_functions(pass_name: str, model: onnx_ir.Model, rules: PromotionRules, records: Records) -> Inference:
    """Copy functions until each that needs conversions is called with one set of types; returns the inference."""
    while True:
        inference = infer_element_types(model, rules)
        wanted = inference.calls.to_specialise()
        if not wanted:
            return inference
        made: dict[onnx_ir.Function, dict[Signature, onnx_ir.OperatorIdentifier]] = {}
        for node, (function, signature) in wanted.items():
            copies = made.setdefault(function, {})
            if not copies:
                copies[signature] = function.identifier()
            elif signature not in copies:
                copies[signature] = _copy(model, function, signature)
            if copies[signature] != function.identifier():
                records.rewrites.append(_call(pass_name, node, copies[signature]))


def _copy(model: onnx_ir.Model, function: onnx_ir.Function, signature: Signature) -> onnx_ir.OperatorIdentifier:
    identifier = free_identifier(model.functions, function.identifier(), signature_text(signature))
    copy = function.clone()
    copy.domain, copy.name, copy.overload = identifier
    copy.graph.name = ".".join(filter(None, identifier))
    model.functions[identifier] = copy
    return identifier


def _call(pass_name: str, node: onnx_ir.Node, identifier: onnx_ir.OperatorIdentifier) -> Rewrite:
    before, site = node_text(node), site_of(node)
    copy = ".".join(filter(None, identifier))
    reason = f"{node.op_type} is called with other types too and converts by them, so this call gets its copy {copy}"
    _, node.op_type, node.overload = identifier
    return Rewrite(pass_name, "specialise-function", site, before, node_text(node), reason, Effect.BIT_EXACT)
