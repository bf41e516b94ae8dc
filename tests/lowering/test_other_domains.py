"""Operators of another domain may mean anything, whatever their names: nothing is changed or said of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import cycle

import onnx
import onnx.helper
import onnx_ir

import castsmith
from tests.graphs.golden import Case
from tests.passes.test_golden import CASES
from tests.sampling import check_all

KEPT = ("Constant", "If", "Loop", "Scan")
"""Operators that hold what is in other nodes."""
DONE = {"drop-unused", "inline-functions", "opset", "widen-joined-output", "widen-state", "declare-types"}
"""What is done to a model whatever its operators mean, and to branches and states of several types."""
SAID = {"unregistered-operator", "unknown-operator", "float8-not-lowered"}
"""What is said of an operator that nobody knows."""


def _nodes(scope: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    for node in scope.node:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _nodes(graph)


def _renamed(proto: onnx.ModelProto) -> Counter[bytes]:
    """Move all operators to another domain; return the nodes of it."""
    defined = {(function.domain, function.name) for function in proto.functions}
    for scope in (proto, *proto.functions):
        scope.opset_import.append(onnx.helper.make_opsetid("other", 1))
    for node in (node for scope in (proto.graph, *proto.functions) for node in _nodes(scope)):
        if node.op_type not in KEPT and (node.domain, node.op_type) not in defined:
            node.domain = "other"
    return _others(proto)


def _others(proto: onnx.ModelProto) -> Counter[bytes]:
    nodes = (node for scope in (proto.graph, *proto.functions) for node in _nodes(scope))
    parts = ([node.op_type, *node.attribute] for node in nodes if node.domain == "other")
    return Counter(repr(list(map(str, part))).encode() for part in parts)


def require_left_alone(case: Case, target: str | None) -> None:
    proto = onnx_ir.to_proto(case.model())
    before = _renamed(proto)
    kinds = {node.op_type for node in _nodes(proto.graph) if node.domain == "other"}
    found = castsmith.check(proto, target=target)
    assert {each.code for each in found if each.site.op in kinds} <= SAID
    result = castsmith.optimize(proto, target=target, promote_unsafe=True)
    assert {each.code for each in result.diagnostics if each.site.op in kinds} <= SAID
    rules = {each.rule for each in result.rewrites}
    assert rules <= DONE
    assert _others(result.proto) == before or rules & {"drop-unused", "inline-functions"}


def test_optimize_and_check_leave_them_alone() -> None:
    targets = cycle((None, "openvino-cpu", "tensorrt-11", "onnxruntime-android"))
    check_all(require_left_alone, zip(CASES, targets, strict=False))
