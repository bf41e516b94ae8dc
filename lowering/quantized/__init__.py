"""Operators of ONNX Runtime for quantized formats, written as standard ones, and the other way.

`LOWERINGS` has each by its name in ONNX text: lowerings of lower-custom, for targets that do not run the operator
itself. `UseVendor` is the pass that writes products with quantized weights as MatMulNBits, on request.

    microsoft    com.microsoft: QuantizeLinear, DequantizeLinear, MatMulNBits in standard operators
    use          the pass for the other way
    nbits        MatMul with a dequantized weight as MatMulNBits
"""
