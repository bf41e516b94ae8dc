"""What the rules of `check` ask of a model, and findings that are told once for many nodes."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.lowering.check.pairs import TARGET_LACKS_KERNEL
from castsmith.lowering.check.scene import merged, once, unused_nodes
from tests.lowering.check.test_device import scene_of

BODY = """(float[2,3] x) => (float[2,3] y, float[k] z) {
    a = Relu (x) y, i = local.Two (a) b = Neg (x) c = Abs (b) d = local.f (a) u, z = local.Two (d) }
    <domain: "local", opset_import: ["" : 17]> f (p) => (q) { q = Exp (p) }"""


def test_the_nodes_and_ranks_of_a_model() -> None:
    scene = scene_of(BODY)
    assert [node.op_type for node in scene.own] == ["Relu", "Two", "Neg", "Abs", "Two", "Exp"]
    assert [node.op_type for node in scene.standard] == ["Relu", "Neg", "Abs", "Exp"]
    assert [node.op_type for node in scene.nodes if node in unused_nodes(scene.model)] == ["Neg", "Abs"]
    assert [scene.rank(scene.nodes[0], index) for index in (0, 1)] == [2, None]
    assert scene.site == Site("g")
    loose = onnx_ir.Node("", "Relu", [])
    asked = ((scene.nodes[0], ""), (scene.nodes[0], "local"), (loose, ""))
    assert [scene.opset(node, domain) for node, domain in asked] == [17, 1, None]


def test_findings_that_are_told_once() -> None:
    relu, two, neg, *_ = scene_of(BODY).nodes
    told = [once(TARGET_LACKS_KERNEL, Severity.ERROR, node, says, "so") for node, says in
            ((relu, "a"), (two, "b"), (neg, "a"))]  # fmt: skip
    other = Diagnostic(TARGET_LACKS_KERNEL.code, Severity.NOTE, Site("g"), "a")
    assert [(each.message, each.site.op, each.help) for each in merged([*told, other, other])] == [
        ("a, in 2 nodes; this is the first", "Relu", "so"), ("b", "Two", "so"), ("a", "", ""), ("a", "", ""),
    ]  # fmt: skip
