"""A pass: the probes of Acme's debugger go."""

from dataclasses import dataclass

import onnx_ir

from castsmith import Records, Refusal, Rewrite, RewriteResult, Site
from castsmith.passes import RewritePass

NAME = "drop-probes"


@dataclass(frozen=True)
class DropProbes(RewritePass):
    """Drop com.example.Probe, which gives what it is given. keep: the name of a probe that is to stay."""

    keep: str = ""

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        records = Records()
        for node in list(model.graph.all_nodes()):
            if (node.domain, node.op_type) != ("com.example", "Probe") or node.name == self.keep != "":
                continue
            site = Site(model.graph.name or "", node.name or "", node.op_type)
            given, output = node.inputs[0], node.outputs[0]
            if output.is_graph_output() or given is None or node.graph is None:
                records.refusals.append(Refusal(NAME, "drop-probe", site, "an output of the graph must keep its name"))
                continue
            before = f"{output.name} = com.example.Probe ({given.name})"
            output.replace_all_uses_with(given)
            node.graph.remove(node, safe=True)
            reason = "a probe gives what it is given"
            records.rewrites.append(Rewrite(NAME, "drop-probe", site, before, given.name or "", reason))
        return RewriteResult(model, bool(records.rewrites), records)
