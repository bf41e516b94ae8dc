"""Nodes whose operator nobody has defined: what they give is unknown, and runtimes refuse the model."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir

from castsmith.ir.qonnx import is_trunc
from castsmith.ir.records import Diagnostic, Severity
from castsmith.ir.schemas import DEFAULT_DOMAINS, op_formals, opset_of
from castsmith.ir.scopes import imports_by_scope
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes


def operator_findings(model: onnx_ir.Model) -> Iterator[Diagnostic]:
    """Standard operators that the opset does not have, and operators of domains that the model does not import."""
    imports = imports_by_scope(model)
    for node in all_nodes(model):
        if node.graph is None or node.op_identifier() in model.functions:
            continue
        opset = opset_of(imports[node.graph], node.domain)
        if opset is None and is_trunc(node):
            continue  # its version is guessed, which is a finding of its own
        if opset is None:
            message, way_out = f"the domain {node.domain} of {node.op_type} is not imported", "import it"
        elif node.domain in DEFAULT_DOMAINS and op_formals(node.domain, node.op_type, opset) is None:
            message = f"opset {opset} of ONNX has no operator {node.op_type}"
            way_out = "import the opset that has it, or give the node the domain that defines it"
        else:
            continue
        yield Diagnostic("unknown-operator", Severity.WARNING, site_of(node), message, way_out)
