"""A pass of your own, for an operator of your own domain, among the passes of Castsmith and of onnx_ir."""

from dataclasses import dataclass

import onnx_ir
from onnx_ir.passes import InPlacePass, PassResult, Sequential
from onnx_ir.passes.common import RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

from castsmith.passes import InsertPromoteTypes, ResolvePromoteTypes, SimplifyCasts


@dataclass(frozen=True)
class LowerRoundTrip(InPlacePass):
    """acme.RoundTrip (x) means: x as `via` holds it."""

    via: onnx_ir.DataType = onnx_ir.DataType.FLOAT16

    def call(self, model: onnx_ir.Model) -> PassResult:
        found = [node for node in model.graph.all_nodes() if (node.domain, node.op_type) == ("acme", "RoundTrip")]
        for node in found:
            x = node.inputs[0]
            assert x is not None
            assert x.dtype is not None
            assert node.graph is not None
            narrow = onnx_ir.node("Cast", [x], {"to": int(self.via)})
            back = onnx_ir.node("Cast", [narrow.outputs[0]], {"to": int(x.dtype)})
            onnx_ir.convenience.replace_nodes_and_values(
                node.graph, node, [node], [narrow, back], node.outputs, back.outputs
            )
        return PassResult(model, bool(found))


model = onnx_ir.from_onnx_text("""
    <ir_version: 10, opset_import: ["": 21, "acme": 1]>
    g (float[4] x, float16[4] half) => (float[4] y) { kept = acme.RoundTrip (x)  y = Add (kept, half) }
""")
pipeline = Sequential(
    InsertPromoteTypes(promote_unsafe=True),
    LowerRoundTrip(),
    ResolvePromoteTypes(),
    SimplifyCasts(),
    RemoveUnusedNodesPass(),
    RemoveUnusedOpsetsPass(),
)
result = pipeline(model)
print("changed:", result.modified)
print("operators:", [node.op_type for node in result.model.graph])
print("domains:", sorted(result.model.opset_imports))
