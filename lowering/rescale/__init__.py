"""rescale: keep a model in float16 without a float node, by powers of two that move its values into range.

`exponents` states what each operator does to the exponent of its operands, `solve` finds the exponents, `run` is the
pass that applies them. `softmax` subtracts maxima below exponentials, which is no scale.
"""
