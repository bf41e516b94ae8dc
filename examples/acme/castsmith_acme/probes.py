"""A pass: the probes of Acme's debugger go."""

from dataclasses import dataclass

import onnx_ir

from castsmith import Records, Refusal, Rewrite, RewriteResult, Site
from castsmith.passes import RewritePass

NAME, RULE = "drop-probes", "drop-probe"


@dataclass(frozen=True)
class DropProbes(RewritePass):
    """Drop com.example.Probe, which gives what it is given.

    keep: the name of a probe that is to stay.
    """

    keep: str = ""

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        records = Records()
        for node in list(model.graph.all_nodes()):
            name = f"{node.domain}.{node.op_type}"
            kept = self.keep and node.name == self.keep
            if name == "com.example.Probe" and not kept:
                drop(node, records)
        return RewriteResult(model, bool(records.rewrites), records)


def drop(node: onnx_ir.Node, records: Records) -> None:
    given, output = node.inputs[0], node.outputs[0]
    assert given is not None
    assert node.graph is not None
    site = Site(node.graph.name or "", node.name or "", node.op_type, output.name or "")
    if output.is_graph_output():
        reason = "an output of the graph must keep its name"
        records.refusals.append(Refusal(NAME, RULE, site, reason))
        return
    before = f"{output.name} = com.example.Probe ({given.name})"
    output.replace_all_uses_with(given)
    node.graph.remove(node, safe=True)
    after, reason = f"{given.name}", "a probe gives what it is given"
    records.rewrites.append(Rewrite(NAME, RULE, site, before, after, reason))
