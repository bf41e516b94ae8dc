"""QuantizeLinear and DequantizeLinear on arrays, per tensor, per axis and in blocks, for every opset.

Call `quantize_linear` or `dequantize_linear`.

    linear         the arithmetic
    schema         operands, types and attributes checked by opset
    granularity    the scale of each element
    status         `judge_quantize`: why the standard does not fix a result
"""
