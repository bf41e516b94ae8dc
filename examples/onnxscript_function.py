"""A model written with onnxscript, with a function of its own that forgets a cast."""

# pyright: basic, reportReturnType=false
# onnxscript functions are a language of their own, in which an annotation is the type of a tensor.

import onnx
import onnx_ir
from onnxscript import FLOAT, INT64, opset21 as op, script, values

import castsmith

layers = values.Opset("acme.layers", 1)


@script(layers, default_opset=op)
def average(total, count):
    return op.Div(total, count)


@script(default_opset=op)
def model(prices: FLOAT["n"], count: INT64[1]) -> FLOAT[1]:  # noqa: F821
    total = op.ReduceSum(prices)
    return average(total, count)


proto = model.to_model_proto()
result = castsmith.optimize(proto, promotion="torch")
for rewrite in result.rewrites:
    print(f"{rewrite.rule} at {rewrite.site}: {rewrite.reason}")

fixed = onnx_ir.to_proto(result.model)
onnx.checker.check_model(fixed, full_check=True)
for function in fixed.functions:
    print(onnx.printer.to_text(function))
