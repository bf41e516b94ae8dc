"""The conformance suite: what the standard requires of every conversion, as vectors that any implementation can run.

`export` writes the suite, `read_suite` reads it, and `engines.run` compares an engine with it.

    values        the inputs: whole domains, and the numbers next to which a result changes
    vectors       Cast, CastLike and BitCast between all pairs of types
    quantized     QuantizeLinear, DequantizeLinear, and QONNX's Trunc
    exporting     the files: models with data sets, raw vectors, the manifest
    reading       the files read again, each checked against its hash
    judging       the output of an engine against a vector
    engines       the engines, each in a process of its own
"""
