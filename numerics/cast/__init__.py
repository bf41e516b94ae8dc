"""The codec: convert an array from one element type to another, bit for bit as the ONNX Cast of an opset defines it.

Call `cast(array, to, opset=..., saturate=...)`. Passes, lowerings and tests compute every conversion with it.

    convert      `cast` and `bit_cast`
    settings     types and attributes by opset; `policy_for` gives the settings in force
    codec        arrays of codes: rounding by a table of all codes
    narrowing    `narrow` and `widen`, the two halves of a conversion of floating-point codes
    integers     floating-point numbers truncated by numpy, unless one is out of range
    compiled     conversions by the kernels of `kernels`, which numba compiles, for those who ask for them
    strings      numbers from and to text
"""
