"""Models of one operator each, as ONNX text, with which a runtime is probed for the operator and a type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import onnx
import onnx.defs
import onnx.helper
from onnx_ir import DataType

from castsmith.ir.ops.contrib import CONTRIB_DOMAIN, contrib_schema
from castsmith.ir.ops.formals import Formal
from castsmith.ir.ops.schemas import op_formals, since_version
from castsmith.numerics.types import Kind, element_type, type_name

_SAME = "agraph (T[2,2] x) => (T[A,B] y) {{ y = {} (x) }}"
_PAIR = "agraph (T[2,2] x, T[2,2] z) => (T[A,B] y) {{ y = {} (x, z) }}"
_TEST = "agraph (T[2,2] x) => (bool[A,B] y) {{ y = {} (x) }}"
_COMPARISON = "agraph (T[2,2] x, T[2,2] z) => (bool[A,B] y) {{ y = {} (x, z) }}"
_SHAPED = "agraph (T[2,2] x) => (T[A,B] y) <int64[2] s = {{2, 2}}> {{ y = {} (x, s) }}"
_POOLED = "agraph (T[1,1,4,4] x) => (T[A,B,C,D] y) {{ y = {} (x) }}"
_WINDOW = "agraph (T x) => (float[A] y) {{ y = {} (x) }}"
_FAMILIES = {
    _SAME: "Identity Abs Neg Sign Floor Ceil Round Exp Log Sqrt Reciprocal Relu Sigmoid Tanh Erf Softmax LogSoftmax"
    " Gelu LeakyRelu Cos Sin Softplus BitwiseNot Transpose Flatten Trilu Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan"
    " Celu Elu HardSigmoid HardSwish Mish Selu Shrink Softsign Swish ThresholdedRelu Hardmax LpNormalization Not"
    " Bernoulli RandomNormalLike RandomUniformLike EyeLike ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceProd"
    " ReduceSumSquare",
    _PAIR: "Add Sub Mul Div Pow Min Max Mod BitwiseAnd BitwiseOr BitwiseXor MatMul PRelu Sum"
    " And Or Xor Mean SwiGLU StringConcat",
    _TEST: "IsNaN IsInf",
    _POOLED: "GlobalAveragePool GlobalMaxPool GlobalLpPool MeanVarianceNormalization",
    _WINDOW: "BlackmanWindow HammingWindow HannWindow",
    _COMPARISON: "Equal Less Greater LessOrEqual GreaterOrEqual",
    _SHAPED: "Reshape Expand Tile",
}
_SEQUENCE = "agraph (T[2] x) => (T[A] y) <int64 p = {{0}}> {{ s = SequenceConstruct (x, x) {} }}"
_SINGLE = {
    "Clip": "agraph (T[2] x, T z) => (T[2] y) { y = Clip (x, z, z) }",
    "Constant": "agraph (float[1] x) => (float[1] y) { c = Constant <value = T[1] {0}> () y = Cast <to = 1> (c) }",
    "Scan": "agraph (T[2,2] x) => (T[2,2] y) { y = Scan <num_scan_inputs = 1, body = s (T[2] a) => (T[2] b)"
    " { b = Identity (a) }> (x) }",
    "BitShift": 'agraph (T[2] x, T[2] z) => (T[2] y) { y = BitShift <direction = "LEFT"> (x, z) }',
    "BitCast": "agraph (T[2] x) => (U[2] y) { y = BitCast <to = V> (x) }",
    "Cast": "agraph (float[2] x) => (T[2] c, float[2] y) { c = Cast <to = CODE> (x) y = Cast <to = 1> (c) }",
    "CastLike": "agraph (float[2] x, T[2] z) => (T[2] y) { y = CastLike (x, z) }",
    "QuantizeLinear": "agraph (float[2] x, float s, T z) => (T[2] y) { y = QuantizeLinear (x, s, z) }",
    "DequantizeLinear": "agraph (T[2] x, float s, T z) => (float[2] y) { y = DequantizeLinear (x, s, z) }",
    "Where": "agraph (bool[2] c, T[2] x, T[2] z) => (T[2] y) { y = Where (c, x, z) }",
    "Gather": "agraph (T[2,2] x) => (T[A,B] y) <int64[1] i = {1}> { y = Gather (x, i) }",
    "GatherElements": "agraph (T[2] x) => (T[2] y) <int64[2] i = {1, 0}> { y = GatherElements (x, i) }",
    "GatherND": "agraph (T[2] x, int64[2,1] i) => (T[2] y) { y = GatherND (x, i) }",
    "ScatterND": "agraph (T[2] x, int64[2,1] i, T[2] u) => (T[2] y) { y = ScatterND (x, i, u) }",
    "ScatterElements": "agraph (T[2] x, int64[2] i, T[2] u) => (T[2] y) { y = ScatterElements (x, i, u) }",
    "Concat": "agraph (T[2] x, T[2] z) => (T[4] y) { y = Concat <axis = 0> (x, z) }",
    "Split": "agraph (T[2] x) => (T[A] y, T[B] z) <int64[2] s = {1, 1}> { y, z = Split (x, s) }",
    "Slice": "agraph (T[2] x) => (T[A] y) <int64[1] b = {0}, int64[1] e = {1}> { y = Slice (x, b, e) }",
    "Squeeze": "agraph (T[1,2] x) => (T[2] y) <int64[1] a = {0}> { y = Squeeze (x, a) }",
    "Unsqueeze": "agraph (T[2] x) => (T[1,2] y) <int64[1] a = {0}> { y = Unsqueeze (x, a) }",
    "Pad": "agraph (T[2] x) => (T[A] y) <int64[2] p = {1, 1}> { y = Pad (x, p) }",
    "DepthToSpace": "agraph (T[1,4,1,1] x) => (T[1,1,2,2] y) { y = DepthToSpace <blocksize = 2> (x) }",
    "SpaceToDepth": "agraph (T[1,1,2,2] x) => (T[1,4,1,1] y) { y = SpaceToDepth <blocksize = 2> (x) }",
    "Shape": "agraph (T[N] x) => (int64[1] y) { y = Shape (x) }",
    "Size": "agraph (T[N] x) => (int64 y) { y = Size (x) }",
    "Compress": "agraph (T[2] x, bool[2] c) => (T[A] y) { y = Compress (x, c) }",
    "OneHot": "agraph (int64[2] i, int64 d, T[2] v) => (T[A,B] y) { y = OneHot (i, d, v) }",
    "NonZero": "agraph (T[2,2] x) => (int64[A,B] y) { y = NonZero (x) }",
    "ConstantOfShape": "agraph (int64[1] s) => (T[A] y) { y = ConstantOfShape <value = T[1] {0}> (s) }",
    "ReverseSequence": "agraph (T[2,2] x) => (T[A,B] y) <int64[2] n = {1, 2}> { y = ReverseSequence (x, n) }",
    "CenterCropPad": "agraph (T[2,2] x) => (T[A,B] y) <int64[2] s = {1, 3}> { y = CenterCropPad (x, s) }",
    "Scatter": "agraph (T[2] x, int64[2] i, T[2] u) => (T[2] y) { y = Scatter (x, i, u) }",
    "TensorScatter": "agraph (T[1,1,2,2] x, T[1,1,1,2] u) => (T[A,B,C,D] y) { y = TensorScatter (x, u) }",
    "Resize": "agraph (T[1,1,2,2] x) => (T[A,B,C,D] y) <float[4] s = {1.0, 1.0, 2.0, 2.0}, float[0] r = {}>"
    ' { y = Resize <mode = "nearest"> (x, r, s) }',
    "Upsample": "agraph (T[1,1,2,2] x) => (T[A,B,C,D] y) <float[4] s = {1.0, 1.0, 2.0, 2.0}>"
    ' { y = Upsample <mode = "nearest"> (x, s) }',
    "Dropout": "agraph (T[2] x) => (T[A] y) { y = Dropout (x) }",
    "Range": "agraph (T x, T z) => (T[A] y) { y = Range (x, z, z) }",
    "SplitToSequence": "agraph (T[2] x) => (T[A] y) { s = SplitToSequence (x) y = ConcatFromSequence <axis = 0> (s) }",
    "ReduceSum": "agraph (T[2,2] x) => (T[A,B] y) <int64[1] a = {0}> { y = ReduceSum (x, a) }",
    "ReduceMax": "agraph (T[2,2] x) => (T[A,B] y) { y = ReduceMax (x) }",
    "ReduceMin": "agraph (T[2,2] x) => (T[A,B] y) { y = ReduceMin (x) }",
    "ReduceMean": "agraph (T[2,2] x) => (T[A,B] y) { y = ReduceMean (x) }",
    "ArgMax": "agraph (T[2,2] x) => (int64[A,B] y) { y = ArgMax (x) }",
    "ArgMin": "agraph (T[2,2] x) => (int64[A,B] y) { y = ArgMin (x) }",
    "TopK": "agraph (T[2] x) => (T[A] y, int64[A] i) <int64[1] k = {1}> { y, i = TopK (x, k) }",
    "CumSum": "agraph (T[2] x) => (T[2] y) <int64 a = {0}> { y = CumSum (x, a) }",
    "Gemm": "agraph (T[2,2] x, T[2,2] z) => (T[2,2] y) { y = Gemm (x, z) }",
    "Conv": "agraph (T[1,1,4,4] x, T[1,1,2,2] w) => (T[1,1,3,3] y) { y = Conv (x, w) }",
    "MaxPool": "agraph (T[1,1,4,4] x) => (T[1,1,3,3] y) { y = MaxPool <kernel_shape = [2,2]> (x) }",
    "AveragePool": "agraph (T[1,1,4,4] x) => (T[1,1,3,3] y) { y = AveragePool <kernel_shape = [2,2]> (x) }",
    "LayerNormalization": "agraph (T[2,2] x, T[2] s) => (T[2,2] y) { y = LayerNormalization (x, s) }",
    "If": "agraph (bool c, T[2] x) => (T[2] y) { y = If (c) <then_branch = t () => (T[2] a) { a = Identity (x) },"
    " else_branch = e () => (T[2] b) { b = Identity (x) }> }",
    "Loop": "agraph (int64 n, bool c, T[2] x) => (T[2] y) { y = Loop (n, c, x) <body = l (int64 i, bool d, T[2] v)"
    " => (bool e, T[2] w) { e = Identity (d) w = Identity (v) }> }",
    "LSTM": "agraph (T[1,1,2] x, T[1,4,2] w, T[1,4,1] r) => (T[A,B,C,D] y) { y = LSTM <hidden_size = 1> (x, w, r) }",
    "GRU": "agraph (T[1,1,2] x, T[1,3,2] w, T[1,3,1] r) => (T[A,B,C,D] y) { y = GRU <hidden_size = 1> (x, w, r) }",
    "RNN": "agraph (T[1,1,2] x, T[1,1,2] w, T[1,1,1] r) => (T[A,B,C,D] y) { y = RNN <hidden_size = 1> (x, w, r) }",
    "BatchNormalization": "agraph (T[1,2,2] x, T[2] s, T[2] b, T[2] m, T[2] v) => (T[1,2,2] y)"
    " { y = BatchNormalization (x, s, b, m, v) }",
    "InstanceNormalization": "agraph (T[1,2,2] x, T[2] s, T[2] b) => (T[1,2,2] y)"
    " { y = InstanceNormalization (x, s, b) }",
    "GroupNormalization": "agraph (T[1,2,2] x, T[2] s, T[2] b) => (T[1,2,2] y)"
    " { y = GroupNormalization <num_groups = 1> (x, s, b) }",
    "RMSNormalization": "agraph (T[2,2] x, T[2] s) => (T[2,2] y) { y = RMSNormalization (x, s) }",
    "LRN": "agraph (T[1,2,2,2] x) => (T[1,2,2,2] y) { y = LRN <size = 1> (x) }",
    "LpPool": "agraph (T[1,1,4,4] x) => (T[1,1,3,3] y) { y = LpPool <kernel_shape = [2,2]> (x) }",
    "MaxRoiPool": "agraph (T[1,1,2,2] x) => (T[A,B,C,D] y) <T[1,5] r = {0, 0, 0, 1, 1}>"
    " { y = MaxRoiPool <pooled_shape = [1,1]> (x, r) }",
    "RoiAlign": "agraph (T[1,1,2,2] x, T[1,4] r) => (T[A,B,C,D] y) <int64[1] i = {0}> { y = RoiAlign (x, r, i) }",
    "MaxUnpool": "agraph (T[1,1,1,1] x) => (T[A,B,C,D] y) <int64[1,1,1,1] i = {0}>"
    " { y = MaxUnpool <kernel_shape = [2,2], strides = [2,2]> (x, i) }",
    "AffineGrid": "agraph (T[1,2,3] x) => (T[A,B,C,D] y) <int64[4] s = {1, 1, 2, 2}> { y = AffineGrid (x, s) }",
    "GridSample": "agraph (T[1,1,2,2] x, float[1,2,2,2] g) => (T[A,B,C,D] y) { y = GridSample (x, g) }",
    "Col2Im": "agraph (T[1,4,1] x) => (T[A,B,C,D] y) <int64[2] s = {2, 2}> { y = Col2Im (x, s, s) }",
    "ConvTranspose": "agraph (T[1,1,3,3] x, T[1,1,2,2] w) => (T[1,1,4,4] y) { y = ConvTranspose (x, w) }",
    "ConvInteger": "agraph (T[1,1,4,4] x, T[1,1,2,2] w) => (int32[1,1,3,3] y) { y = ConvInteger (x, w) }",
    "MatMulInteger": "agraph (T[2,2] x, T[2,2] w) => (int32[2,2] y) { y = MatMulInteger (x, w) }",
    "QLinearConv": "agraph (T[1,1,4,4] x, float s, T z, T[1,1,2,2] w) => (T[1,1,3,3] y)"
    " { y = QLinearConv (x, s, z, w, s, z, s, z) }",
    "QLinearMatMul": "agraph (T[2,2] x, float s, T z) => (T[2,2] y) { y = QLinearMatMul (x, s, z, x, s, z, s, z) }",
    "DynamicQuantizeLinear": "agraph (T[2] x) => (uint8[2] y) { y, s, z = DynamicQuantizeLinear (x) }",
    "DeformConv": "agraph (T[1,1,3,3] x, T[1,1,2,2] w, T[1,8,2,2] o) => (T[1,1,2,2] y) { y = DeformConv (x, w, o) }",
    "CausalConvWithState": "agraph (T[1,2,3] x, T[2,1,2] w) => (T[A,B,C] y, T[D,E,F] s)"
    " { y, s = CausalConvWithState (x, w) }",
    "Attention": "agraph (T[1,1,2,2] x, T[1,1,2,2] k, T[1,1,2,2] v) => (T[A,B,C,D] y) { y = Attention (x, k, v) }",
    "LinearAttention": "agraph (T[1,1,2] x, T[1,1,2] k, T[1,1,2] v) => (T[A,B,C] y, T[D,E,F,G] s)"
    ' { y, s = LinearAttention <q_num_heads = 1, kv_num_heads = 1, update_rule = "linear"> (x, k, v) }',
    "RotaryEmbedding": "agraph (T[1,1,1,2] x, T[1,1,1] c, T[1,1,1] s) => (T[A,B,C,D] y)"
    " { y = RotaryEmbedding (x, c, s) }",
    "CumProd": "agraph (T[2] x) => (T[2] y) <int64 a = {0}> { y = CumProd (x, a) }",
    "DFT": "agraph (T[1,4,1] x) => (T[A,B,C] y) { y = DFT (x) }",
    "STFT": "agraph (T[1,8,1] x, T[4] w) => (T[A,B,C,D] y) <int64 s = {2}> { y = STFT (x, s, w) }",
    "MelWeightMatrix": "agraph (T n) => (float[A,B] y) <T d = {8}, T r = {8}, float l = {0.0}, float h = {4.0}>"
    " { y = MelWeightMatrix (n, d, r, l, h) }",
    "Det": "agraph (T[2,2] x) => (T y) { y = Det (x) }",
    "Einsum": 'agraph (T[2,2] x, T[2,2] z) => (T[A,B] y) { y = Einsum <equation = "ij,jk->ik"> (x, z) }',
    "Multinomial": "agraph (T[1,2] x) => (int32[A,B] y) { y = Multinomial (x) }",
    "NegativeLogLikelihoodLoss": "agraph (T[2,2] x, int64[2] t) => (T y) { y = NegativeLogLikelihoodLoss (x, t) }",
    "SoftmaxCrossEntropyLoss": "agraph (T[2,2] x, int64[2] t) => (T y) { y = SoftmaxCrossEntropyLoss (x, t) }",
    "NonMaxSuppression": "agraph (T[1,1,4] x, T[1,1,1] s) => (int64[A,B] y) { y = NonMaxSuppression (x, s) }",
    "RandomNormal": "agraph () => (T[2] y) { y = RandomNormal <shape = [2], dtype = CODE> () }",
    "RandomUniform": "agraph () => (T[2] y) { y = RandomUniform <shape = [2], dtype = CODE> () }",
    "Unique": "agraph (T[2] x) => (T[A] y) { y = Unique (x) }",
    "RegexFullMatch": 'agraph (T[2] x) => (bool[2] y) { y = RegexFullMatch <pattern = "a"> (x) }',
    "StringNormalizer": "agraph (T[2] x) => (T[A] y) { y = StringNormalizer (x) }",
    "StringSplit": "agraph (T[2] x) => (T[A,B] y, int64[2] z) { y, z = StringSplit (x) }",
    "SequenceConstruct": _SEQUENCE.format("y = ConcatFromSequence <axis = 0> (s)"),
    "ConcatFromSequence": _SEQUENCE.format("y = ConcatFromSequence <axis = 0> (s)"),
    "SequenceAt": _SEQUENCE.format("y = SequenceAt (s, p)"),
    "SequenceErase": _SEQUENCE.format("u = SequenceErase (s) y = SequenceAt (u, p)"),
    "SequenceInsert": _SEQUENCE.format("u = SequenceInsert (s, x) y = SequenceAt (u, p)"),
    "SequenceEmpty": "agraph (T[2] x) => (T[A] y) <int64 p = {0}>"
    " { s = SequenceEmpty <dtype = CODE> () u = SequenceInsert (s, x) y = SequenceAt (u, p) }",
    "SequenceMap": _SEQUENCE.format(
        "u = SequenceMap <body = b (T[N] a) => (T[N] c) { c = Identity (a) }> (s) y = SequenceAt (u, p)"
    ),
    "SequenceLength": "agraph (T[2] x) => (int64 y) { s = SequenceConstruct (x, x) y = SequenceLength (s) }",
    "Optional": "agraph (T[2] x) => (T[A] y) { o = Optional (x) y = OptionalGetElement (o) }",
    "OptionalGetElement": "agraph (T[2] x) => (T[A] y) { o = Optional (x) y = OptionalGetElement (o) }",
    "OptionalHasElement": "agraph (T[2] x) => (bool y) { o = Optional (x) y = OptionalHasElement (o) }",
}

TEXTS: dict[str, str] = {
    **{name: form.format(name) for form, names in _FAMILIES.items() for name in names.split()},
    **_SINGLE,
}
"""The probed operators, each with its model: T is the type in question."""

_OLDER: dict[str, Mapping[int, str]] = {
    "Cast": {
        6: 'agraph (float[2] x) => (T[2] c, float[2] y) { c = Cast <to = "NAME"> (x) y = Cast <to = "FLOAT"> (c) }'
    },
    "Constant": {6: "agraph () => (T[1] y) { y = Constant <value = T[1] {0}> () }"},
    "Reshape": {5: "agraph (T[2,2] x) => (T[A,B] y) { y = Reshape <shape = [2, 2]> (x) }"},
    "Tile": {6: "agraph (T[2,2] x) => (T[A,B] y) <T[1] n = {1}, T[1] a = {0}> { y = Tile (x, n, a) }"},
    "Gemm": {11: "agraph (T[2,2] x, T[2,2] z) => (T[2,2] y) { y = Gemm (x, z, z) }"},
    "Clip": {11: "agraph (T[2] x) => (T[2] y) { y = Clip <min = 0.0, max = 1.0> (x) }"},
    "Split": {13: "agraph (T[2] x) => (T[A] y, T[B] z) { y, z = Split <axis = 0, split = [1, 1]> (x) }"},
    "Slice": {10: "agraph (T[2] x) => (T[A] y) { y = Slice <starts = [0], ends = [1]> (x) }"},
    "Squeeze": {13: "agraph (T[1,2] x) => (T[2] y) { y = Squeeze <axes = [0]> (x) }"},
    "Unsqueeze": {13: "agraph (T[2] x) => (T[1,2] y) { y = Unsqueeze <axes = [0]> (x) }"},
    "Pad": {
        2: "agraph (T[2] x) => (T[A] y) { y = Pad <paddings = [1, 1]> (x) }",
        11: "agraph (T[2] x) => (T[A] y) { y = Pad <pads = [1, 1]> (x) }",
    },
    "ReduceSum": {13: "agraph (T[2,2] x) => (T[A,B] y) { y = ReduceSum <axes = [0]> (x) }"},
    "Resize": {11: TEXTS["Resize"].replace(", r,", ",").replace(", float[0] r = {}", "")},
    "Upsample": {
        7: "agraph (T[1,1,2,2] x) => (T[A,B,C,D] y) { y = Upsample <height_scale = 2.0, width_scale = 2.0> (x) }",
        9: TEXTS["Upsample"].replace(", s)", ")").replace("<mode", "<scales = [1.0, 1.0, 2.0, 2.0], mode"),
    },
    "TopK": {10: "agraph (T[2] x) => (T[A] y, int64[A] i) { y, i = TopK <k = 1> (x) }"},
    "BatchNormalization": {
        6: TEXTS["BatchNormalization"].replace("(x, s", "<consumed_inputs = [0, 0, 0, 1, 1]> (x, s")
    },
    "GroupNormalization": {21: TEXTS["GroupNormalization"].replace("T[2] s, T[2] b", "T[1] s, T[1] b")},
}
"""Operators that take other inputs below an opset; their models below it."""


_OF_SCALE = {
    "QuantizeLinear": "agraph (T[2] x, T s, uint8 z) => (uint8[2] y) { y = QuantizeLinear (x, s, z) }",
    "DequantizeLinear": "agraph (uint8[2] x, T s, uint8 z) => (T[2] y) { y = DequantizeLinear (x, s, z) }",
}
"""The models of operators whose floating types are those of the scale, and whose other types are the quantized ones."""
_SCALES = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)

_EACH_UNTIL = 7
"""Up to this opset, the first that ONNX Runtime guarantees, each one is probed."""


EARLY = {"LayerNormalization": 17}
"""Operators that ONNX Runtime writes into models of any opset when it fuses, and the opset that defines them."""


def versions(op_type: str, dtype: DataType, newest: int) -> Iterator[int]:
    """Return the opsets to probe: each of the oldest, then those at which the operator changed.

    An operator that the standard writes as others is probed at each opset: the others change too.
    A runtime may support an operator of opset 7 and not the same operator of opset 1: ONNX Runtime casts float16
    where it has no kernel for it, and has no Cast below opset 6.
    """
    last = None
    for opset in range(1, newest + 1):
        defined = max(opset, EARLY.get(op_type, 1))
        formals = op_formals("", op_type, defined)
        since = since_version(op_type, defined)
        if (
            formals is not None
            and (since != last or opset <= _EACH_UNTIL or _has_definition(op_type, defined))
            and any(dtype in formal.allowed for part in formals for formal in part)
        ):
            last = since
            yield opset


def _has_definition(op_type: str, opset: int) -> bool:
    schema = onnx.defs.get_schema(op_type, opset)
    return any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))


def model_text(op_type: str, dtype: DataType, opset: int, ir_version: int) -> str:
    """Return the model that probes the operator with the type."""
    same_width = {8: "uint8", 16: "uint16", 32: "int32", 64: "int64"}.get(element_type(dtype).bits, "uint8")
    words = {"T": type_name(dtype), "U": same_width}
    text = _OF_SCALE.get(op_type) if dtype in _SCALES else None
    text = text or next((text for until, text in _OLDER.get(op_type, {}).items() if opset < until), TEXTS[op_type])
    if element_type(dtype).kind is Kind.FLOATING:
        text = text.replace("Mod (", "Mod <fmod = 1> (")
    for letter, name in words.items():
        text = re.sub(rf"(?<=[<(, ]){letter}(?=\[| [a-z])", name, text)
    text = (
        text.replace("CODE", str(int(dtype)))
        .replace("NAME", dtype.name)
        .replace("= V>", f"= {int(DataType[same_width.upper()])}>")
    )
    return f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{text}'


_ATTRIBUTES: dict[str, Any] = {"INT": 4, "FLOAT": 1.0, "STRING": "x", "INTS": [1, 1]}
"""A value for each kind of attribute that an operator of com.microsoft requires."""

_SUITABLE: dict[str, dict[str, Any]] = {
    "DynamicQuantizeLSTM": {"hidden_size": 1},
    "FusedConv": {"activation": "Relu"},
    "FusedGemm": {"activation": "Relu"},
    "MatMulBnb4": {"K": 32, "N": 32, "block_size": 32, "quant_type": 0},
    "MatMulNBits": {"K": 32, "N": 32, "block_size": 32},
}
"""Values of attributes for which others are refused."""


def contrib_model(op_type: str, dtype: DataType, opset: int, ir_version: int) -> bytes:
    """Return the model that probes an operator of com.microsoft with the type; empty if no input takes it."""
    schema = contrib_schema(op_type)
    required = {} if schema is None else {i: formal for i, formal in enumerate(schema.inputs) if not formal.optional}
    if schema is None or not any(dtype in formal.allowed and len(formal.allowed) > 1 for formal in required.values()):
        return b""
    attributes = {name: _ATTRIBUTES.get(kind) for name, kind in schema.attributes.items()}
    if None in attributes.values():
        return b""
    inputs = [_typed(f"i{index}", formal, dtype) for index, formal in required.items()]
    outputs = [_typed("y", schema.outputs[0], dtype)]
    names = [f"i{index}" if index in required else "" for index in range(max(required) + 1)]
    suitable = {**attributes, **_SUITABLE.get(op_type, {})}
    node = onnx.helper.make_node(op_type, names, ["y"], domain=CONTRIB_DOMAIN, **suitable)
    imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid(CONTRIB_DOMAIN, 1)]
    graph = onnx.helper.make_graph([node], "agraph", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir_version).SerializeToString()


def _typed(name: str, parameter: Formal, dtype: DataType) -> onnx.ValueInfoProto:
    preferred = (dtype, DataType.FLOAT, *sorted(parameter.allowed))
    chosen = next(candidate for candidate in preferred if candidate in parameter.allowed)
    return onnx.helper.make_tensor_value_info(name, int(chosen), None)
