"""Findings that follow from others: one wrong operand changes the types of everything computed from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import onnx_ir

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.ops.schemas import OpKey, op_key, with_formals
from castsmith.ir.records import Diagnostic, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, graph_of, imports_by_scope
from castsmith.lowering.check.types import MIXED_OPERAND_TYPES, OUTPUT_TYPE_MISMATCH, VALUE_TYPE_MISMATCH
from castsmith.passes.promote.operands import TYPE_NOT_ALLOWED

_OF_TYPES = (MIXED_OPERAND_TYPES.code, TYPE_NOT_ALLOWED.code, VALUE_TYPE_MISMATCH.code, OUTPUT_TYPE_MISMATCH.code)
"""Codes of findings about the type of a result or operand, those that cause others first."""


def with_causes(model: onnx_ir.Model, inference: Inference, reported: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the findings, each that follows from another with the index of that.

    A finding about types follows from an earlier one if one of its operands is computed from the result of the other
    by operators that pass its type on.
    """
    findings = list(reported)
    at: dict[tuple[Site, str], list[int]] = {}
    for index, finding in enumerate(findings):
        if finding.code in _OF_TYPES:
            at.setdefault((finding.site, finding.site.output), []).append(index)
    if sum(map(len, at.values())) < 2:
        return findings
    roots: dict[int, int] = {}
    wrong: dict[onnx_ir.Value, int] = {}
    imports = imports_by_scope(model)
    for node in all_nodes(model):
        at_node = at.get((site := site_of(node), site.output), [])
        key = op_key(node, imports[graph_of(node)])
        root = _root_of_operands(node, wrong)
        if at_node:
            root = min(at_node, key=lambda i: _OF_TYPES.index(findings[i].code)) if root is None else root
            roots |= {index: root for index in at_node if index != root}
            wrong |= dict.fromkeys(node.outputs, root)
        elif root is not None:
            wrong |= dict.fromkeys(_passed_on(node, key, wrong, inference), root)
    return [replace(finding, follows=roots.get(index)) for index, finding in enumerate(findings)]


def _root_of_operands(node: onnx_ir.Node, wrong: dict[onnx_ir.Value, int]) -> int | None:
    return next((wrong[value] for value in node.inputs if value is not None and value in wrong), None)


def _passed_on(
    node: onnx_ir.Node, key: OpKey | None, wrong: dict[onnx_ir.Value, int], inference: Inference
) -> list[onnx_ir.Value]:
    """Return the outputs whose type is that of a wrong operand, as the schema says."""
    if key is None:
        return []
    typed = [
        (value, formal.variable)
        for value, formal in with_formals(node, key)
        if value is not None and formal is not None
    ]
    variables = {variable for value, variable in typed if value in wrong}
    return [
        value
        for value, variable in typed
        if value in node.outputs and variable in variables and inference.types.get(value) is not None
    ]
