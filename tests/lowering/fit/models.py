"""Small models, each of which needs another way to run on some target."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def plain() -> onnx.ModelProto:
    """Return a model that every target takes as it is."""
    return onnx.parser.parse_model(f"{HEAD} plain (float[2] x) => (float[2] y) {{ [relu] y = Relu (x) }}")


def four_bits() -> onnx.ModelProto:
    """Return a model of two MatMuls with weights of 4 bits in blocks, too large to be folded."""
    model = onnx.parser.parse_model(f"""{HEAD}
        layers (float[n, 64] x) => (float[n, 64] y) {{
            [weight_1] w1 = DequantizeLinear <axis = 0, block_size = 32> (c1, s1, z1)
            [product_1] a = MatMul (x, w1)
            [relu] b = Relu (a)
            [weight_2] w2 = DequantizeLinear <axis = 0, block_size = 32> (c2, s2, z2)
            [product_2] y = MatMul (b, w2)
        }}""")
    random = np.random.default_rng(0)
    for number in (1, 2):
        codes = onnx.helper.make_tensor(f"c{number}", onnx.TensorProto.UINT4, [64, 64], random.integers(0, 16, 4096))
        zeros = onnx.helper.make_tensor(f"z{number}", onnx.TensorProto.UINT4, [2, 64], random.integers(0, 16, 128))
        scales = random.uniform(0.01, 0.1, (2, 64)).astype(np.float32)
        model.graph.initializer.extend([codes, zeros, onnx.numpy_helper.from_array(scales, f"s{number}")])
    return model


def brain_floats(layers: int = 4) -> onnx.ModelProto:
    """Return a model that computes in bfloat16, for which ONNX Runtime has hardly any kernels on the CPU."""
    names = ["x0", *(f"x{number}" for number in range(1, layers + 1))]
    nodes = "\n".join(
        f"[product_{number}] p{number} = MatMul ({before}, w) [relu_{number}] {after} = Relu (p{number})"
        for number, (before, after) in enumerate(pairwise(names))
    )
    model = onnx.parser.parse_model(f"""{HEAD}
        layers (float[4, 16] x) => (float[4, 16] y) {{
            [start] x0 = Cast <to = 16> (x)
            {nodes}
            [end] y = Cast <to = 1> ({names[-1]})
        }}""")
    weight = np.random.default_rng(0).standard_normal((16, 16)) / 4
    model.graph.initializer.append(onnx.helper.make_tensor("w", onnx.TensorProto.BFLOAT16, [16, 16], weight.ravel()))
    return model


def indices() -> onnx.ModelProto:
    """Return a model that computes with indices of int64, from an input."""
    return onnx.parser.parse_model(f"""{HEAD}
        table (int64[n] ids, float[9] t) => (float[n] y)
        <int64 one = {{1}}> {{
            [next] following = Add (ids, one)
            [row] y = Gather (t, following)
        }}""")


def doubles() -> onnx.ModelProto:
    """Return a model with an input and arithmetic of double."""
    return onnx.parser.parse_model(f"""{HEAD}
        table (double[n] amount, float[n] rate) => (float[n] paid) {{
            [wide] r = Cast <to = 11> (rate)
            [product] p = Mul (amount, r)
            [narrow] paid = Cast <to = 1> (p)
        }}""")
