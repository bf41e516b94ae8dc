"""Operators of ONNX Runtime and of TensorRT for quantized formats, written as standard ones, and the other way.

`LOWERINGS` has each by its name in ONNX text: lowerings of lower-custom, for targets that do not run the operator
itself. `UseVendor` is the pass that writes standard operators in those of a vendor, on request.

    microsoft    com.microsoft: QuantizeLinear, DequantizeLinear, MatMulNBits in standard operators
    tensorrt     trt: the operators that NVIDIA ModelOpt exports, in standard operators
    use          the pass for the other way
    nbits        MatMul with a dequantized weight as MatMulNBits
"""
