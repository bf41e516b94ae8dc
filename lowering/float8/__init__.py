"""The pass that stores types of at most 8 bits that a target lacks as codes: float8, float6, float4, int4, int2.

Run `LowerFloat8(target=...)`. It works in three steps: `needs` finds the values that must be codes, `plan` decides for
each node before anything changes, `apply` changes the model.

    lower               the pass
    casts               casts to, from and between codes
    linear              QuantizeLinear and DequantizeLinear of codes
    functions           encodings as model-local functions
"""
