"""Facts about operators beyond their schemas: one table with one row per operator.

Everything else that depends on the operator is derived from its row: the casts that commute with it, the rounding of a
computation in float, the constants that pass through it. A test compares each row with the schemas of all opsets, and
with execution. An operator without a row has no trait: nothing may be assumed about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.traits import (
    EVERY,
    Answer,
    Conversion,
    Indices,
    Input,
    Moves,
    Restriction,
    Role,
    Rounding,
    Size,
    Traits,
)
from castsmith.ir.ops.value_types import named_type
from castsmith.numerics.types import ELEMENT_TYPES, Kind


def _has(name: str) -> Callable[[onnx_ir.Node], bool]:
    return lambda node: name in node.attributes


def _with_zero_point(node: onnx_ir.Node) -> bool:
    return len(node.inputs) > 2 and node.inputs[2] is not None


def _without_reduction(node: onnx_ir.Node) -> bool:
    return node.attributes.get_string("reduction", "none") == "none"


def _fills_with_zero(node: onnx_ir.Node) -> bool:
    """True unless a filling is given: before opset 11 it is an attribute, rounded to the type that is padded."""
    return not node.attributes.get_float("value", 0.0)


def _picks_nearest(node: onnx_ir.Node) -> bool:
    outside = node.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    return node.attributes.get_string("mode", "nearest") == "nearest" and not outside


def _drops_nothing(node: onnx_ir.Node) -> bool:
    """True if not in training mode: the third input from opset 12 on, `is_test` up to opset 6."""
    return len(node.outputs) == 1 and len(node.inputs) < 3 and "is_test" not in node.attributes


def _one_output(node: onnx_ir.Node) -> bool:
    return len(node.outputs) == 1


_INTEGERS = frozenset(row.dtype for row in ELEMENT_TYPES.values() if row.kind is Kind.INTEGER)
_ALL = frozenset(ELEMENT_TYPES)
_NEVER = 1 << 30

_FIRST = (0,)
_SHAPE_IN_FIRST, _SHAPE_IN_SECOND, _TIMES_SECOND = (Size.SHAPE, (0,)), (Size.SHAPE, (1,)), (Size.TIMES, (1,))
_DTYPE, _OUTPUT_DATATYPE = {"dtype": Role.RESULT}, {"output_datatype": Role.RESULT}
_STASH_TYPE, _SOFTMAX_PRECISION = {"stash_type": Role.COMPUTE}, {"softmax_precision": Role.COMPUTE}

_KEEP = Traits(moves=Moves.KEEP, elements=_FIRST, cast_passes=True, carries=True)
_PERMUTE = Traits(moves=Moves.PERMUTE, elements=_FIRST, cast_passes=True)
_SELECT = Traits(moves=Moves.SELECT, elements=_FIRST, cast_passes=True)
_REPEAT = Traits(moves=Moves.REPEAT, elements=_FIRST, cast_passes=True)
_RESIZE = replace(_REPEAT, when=_picks_nearest, computes=True)
_WRITE = Traits(moves=Moves.WRITE, elements=(0, 2), when=_without_reduction)
_MAKE = Traits(moves=Moves.MAKE, elements=())
_PACK = Traits(moves=Moves.PACK, elements=_FIRST)
_UNPACK = Traits(moves=Moves.UNPACK, elements=_FIRST)
_FLOW = Traits(moves=Moves.FLOW, elements=(), runs_graphs=True)
_CONTENT = Traits(moves=Moves.CONTENT, elements=())

_BY_ELEMENT = Traits(elementwise=True)
_PICK_EACH = Traits(elementwise=True, rounding=Rounding.NONE)
_PICK_ORDERED = Traits(elements=_FIRST, ordered=True, rounding=Rounding.NONE)
_EXTREME_OF_OPERANDS = Traits(cast_passes=True, ordered=True, rounding=Rounding.NONE, elementwise=True)
_ROUNDED = Traits(elementwise=True, rounding=Rounding.ONCE)
_INTEGER_ARITHMETIC = Traits(elementwise=True, rounding=Rounding.ONCE, modular=True)
_COMPARISON = Traits(elementwise=True, answer=Answer.COMPARISON, rounding=Rounding.NONE)
_QUESTION = Traits(elementwise=True, answer=Answer.QUESTION, rounding=Rounding.NONE)
_LOGIC = Traits(elementwise=True, answer=Answer.LOGIC)
_EXTREME = Traits(answer=Answer.EXTREME, rounding=Rounding.NONE, later=("select_last_index",))
_CAST = Traits(
    keeps_shape=True,
    elements=_FIRST,
    conversion=Conversion.CAST,
    rounding=Rounding.ONCE,
    elementwise=True,
    revised=True,
)
_RANDOM = Traits(random=True, types=_DTYPE)
_WINDOW = Traits(types=_OUTPUT_DATATYPE, size=_SHAPE_IN_FIRST)
_NORMALIZATION = Traits(keeps_shape=True, scaling=(1,))
_STASHING = replace(_NORMALIZATION, types=_STASH_TYPE)
_RECURRENT = Traits(products=True, later=("layout",))
_QLINEAR = Traits(scaling=(1, 2, 4, 5, 6, 7))
_INTEGER_PRODUCT = Traits(scaling=(2, 3))

_STANDARD: dict[str, Traits] = {
    # moves of elements; zeros that Pad, Trilu, CenterCropPad, Compress and ConstantOfShape bring in are +0, whose code
    # is 0 (float8e8m0 has no zero, and 2**-127, which has that code there, is what a cast makes of one)
    "Identity": replace(_KEEP, keeps_shape=True),
    "Reshape": replace(_KEEP, size=_SHAPE_IN_SECOND, later=("allowzero",)),
    "Squeeze": _KEEP,
    "Unsqueeze": replace(_KEEP, never_scalar=True),
    "Flatten": _KEEP,
    "Transpose": replace(_PERMUTE, carries=True),
    "DepthToSpace": replace(_PERMUTE, later=("mode",)),
    "SpaceToDepth": _PERMUTE,
    "ReverseSequence": _PERMUTE,
    "Slice": replace(_SELECT, carries=True),
    "Gather": replace(_SELECT, carries=True, indices=Indices.ALONG_AXIS),
    "GatherElements": replace(_SELECT, indices=Indices.ALONG_AXIS),
    "GatherND": replace(_SELECT, indices=Indices.TUPLES),
    "Compress": _SELECT,
    "Split": Traits(moves=Moves.SPLIT, elements=_FIRST, cast_passes=True, carries=True),
    "Expand": replace(_REPEAT, carries=True, size=_SHAPE_IN_SECOND),
    "Tile": replace(_REPEAT, size=_TIMES_SECOND),
    "Resize": replace(_RESIZE, size=(Size.RESIZE, (2, 3))),
    "Upsample": replace(_RESIZE, size=_TIMES_SECOND),
    "Dropout": replace(_KEEP, carries=False, when=_drops_nothing, computes=True, keeps_shape=True),
    "Concat": Traits(moves=Moves.JOIN, cast_passes=True, carries=True, never_scalar=True),
    "Where": Traits(moves=Moves.CHOOSE, elements=(1, 2), cast_passes=True),
    "Pad": Traits(
        moves=Moves.FILL,
        elements=(0, 2),
        when=_fills_with_zero,
        cast_passes=True,
        stored=(2,),
        size=(Size.PAD, (1,)),
    ),
    "Trilu": Traits(moves=Moves.FILL, elements=_FIRST, cast_passes=True, keeps_shape=True),
    "CenterCropPad": Traits(moves=Moves.FILL, elements=_FIRST, size=_SHAPE_IN_SECOND),
    "OneHot": Traits(moves=Moves.WRITE, elements=(2,), size=_TIMES_SECOND, revised=True),
    "Scatter": replace(_WRITE, indices=Indices.ALONG_AXIS),
    "ScatterElements": replace(_WRITE, cast_passes=True, indices=Indices.ALONG_AXIS),
    "ScatterND": replace(_WRITE, cast_passes=True, carries=True, indices=Indices.TUPLES),
    "TensorScatter": replace(_WRITE, elements=(0, 1), when=None),
    "Constant": _MAKE,
    "ConstantOfShape": replace(_MAKE, size=_SHAPE_IN_FIRST, carries=True),
    "If": _FLOW,
    "Loop": _FLOW,
    "Scan": _FLOW,
    "SequenceMap": Traits(runs_graphs=True),
    "Shape": Traits(moves=Moves.SHAPE, elements=(), never_scalar=True, later=("start", "end")),
    "Size": Traits(moves=Moves.SHAPE, elements=()),
    "Optional": replace(_PACK, types={"type": Role.RESULT}),
    "SequenceConstruct": replace(_PACK, elements=EVERY, stored=EVERY),
    "SequenceEmpty": replace(_PACK, elements=(), types=_DTYPE),
    "SequenceInsert": replace(_PACK, elements=(0, 1), stored=EVERY),
    "SequenceErase": _PACK,
    "SplitToSequence": _PACK,
    "SequenceAt": _UNPACK,
    "ConcatFromSequence": _UNPACK,
    "OptionalGetElement": _UNPACK,
    "SequenceLength": _CONTENT,
    "OptionalHasElement": _CONTENT,
    # conversions
    "Cast": replace(_CAST, types={"to": Role.RESULT}),
    "CastLike": _CAST,
    "BitCast": Traits(
        elements=_FIRST,
        keeps_shape=True,
        conversion=Conversion.BITS,
        elementwise=True,
        types={"to": Role.RESULT},
        restrictions=(
            Restriction(1, _NEVER, lambda _: True, frozenset(), "its operand and its result have the same width"),
        ),
    ),
    "QuantizeLinear": Traits(
        elements=_FIRST,
        conversion=Conversion.QUANTIZE,
        scaling=(1, 2),
        types={"output_dtype": Role.RESULT, "precision": Role.COMPUTE},
        revised=True,
    ),
    "DequantizeLinear": Traits(
        elements=_FIRST,
        conversion=Conversion.DEQUANTIZE,
        typed_by_input=True,
        scaling=(1, 2),
        types={"output_dtype": Role.RESULT},
        restrictions=(Restriction(1, _NEVER, _with_zero_point, _ALL - {DataType.INT32}, "int32 has no zero point"),),
        revised=True,
    ),
    # selections and comparisons of elements
    "Max": replace(_EXTREME_OF_OPERANDS, on_bool="Or"),
    "Min": replace(_EXTREME_OF_OPERANDS, on_bool="And"),
    "MaxPool": replace(_PICK_ORDERED, cast_passes=True, when=_one_output, later=("ceil_mode", "storage_order")),
    "GlobalMaxPool": _PICK_ORDERED,
    "ReduceMax": replace(_PICK_ORDERED, reduces=True),
    "ReduceMin": replace(_PICK_ORDERED, reduces=True),
    "TopK": _PICK_ORDERED,
    "Sign": Traits(elements=_FIRST, cast_passes=True, ordered=True, rounding=Rounding.NONE, elementwise=True),
    "Clip": replace(_PICK_EACH, ordered=True, keeps_shape=True),
    "Relu": replace(_PICK_EACH, ordered=True),
    "Abs": _PICK_EACH,
    "Neg": _PICK_EACH,
    "Ceil": _PICK_EACH,
    "Floor": _PICK_EACH,
    "Round": _PICK_EACH,
    "Equal": _COMPARISON,
    "Greater": _COMPARISON,
    "GreaterOrEqual": _COMPARISON,
    "Less": _COMPARISON,
    "LessOrEqual": _COMPARISON,
    "IsInf": _QUESTION,
    "IsNaN": _QUESTION,
    "And": _LOGIC,
    "Or": _LOGIC,
    "Xor": _LOGIC,
    "Not": _LOGIC,
    "NonZero": Traits(answer=Answer.PLACES, never_scalar=True),
    "ArgMax": _EXTREME,
    "ArgMin": _EXTREME,
    # arithmetic
    "Add": replace(_INTEGER_ARITHMETIC, on_bool="Or"),
    "Sub": _INTEGER_ARITHMETIC,
    "Mul": replace(_INTEGER_ARITHMETIC, on_bool="And"),
    "Div": _INTEGER_ARITHMETIC,
    "CumSum": Traits(keeps_shape=True, elements=_FIRST, modular=True),
    "PRelu": replace(_ROUNDED, revised=True, keeps_shape=True),
    "Reciprocal": _ROUNDED,
    "Sqrt": _ROUNDED,
    "Sum": replace(_BY_ELEMENT, on_bool="Or", in_pairs="Add"),
    "Mod": Traits(
        elementwise=True,
        modular=True,
        revised=True,
        restrictions=(
            Restriction(
                10,
                27,
                lambda node: not node.attributes.get_int("fmod", 0),
                _INTEGERS,
                "with fmod = 0 it is of integers, and fmod = 1 means something else",
            ),
        ),
    ),
    "Range": Traits(modular=True, types=_STASH_TYPE, size=(Size.RANGE, (0, 1, 2))),
    **dict.fromkeys(
        (
            *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan", "Tanh"),
            *("Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Selu", "Shrink", "Sigmoid"),
            *("Erf", "Exp", "Log", "Mean", "Pow", "Softplus", "Softsign", "Swish", "ThresholdedRelu"),
        ),
        _BY_ELEMENT,
    ),
    **dict.fromkeys(
        ("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
        Traits(elementwise=True, on_bits=True),
    ),
    **dict.fromkeys(
        (
            *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd"),
            "ReduceSumSquare",
        ),
        Traits(reduces=True),
    ),
    "ReduceSum": Traits(elements=_FIRST, reduces=True, modular=True),
    # random numbers, windows, normalizations and integer products
    "Bernoulli": replace(_RANDOM, typed_by_input=True),
    "Multinomial": _RANDOM,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": replace(_RANDOM, typed_by_input=True),
    "RandomUniform": _RANDOM,
    "RandomUniformLike": replace(_RANDOM, typed_by_input=True),
    "BlackmanWindow": _WINDOW,
    "HammingWindow": _WINDOW,
    "HannWindow": _WINDOW,
    "MelWeightMatrix": Traits(types=_OUTPUT_DATATYPE, size=(Size.SHAPE, (0, 1))),
    "EyeLike": Traits(types=_DTYPE, typed_by_input=True),
    "Attention": Traits(types=_SOFTMAX_PRECISION, products=True),
    "BatchNormalization": replace(_NORMALIZATION, revised=True),
    "InstanceNormalization": _NORMALIZATION,
    "GroupNormalization": _STASHING,
    "LayerNormalization": _STASHING,
    "RMSNormalization": _STASHING,
    "Conv": Traits(products=True),
    "ConvTranspose": Traits(products=True, revised=True),
    "Einsum": Traits(products=True),
    "Gemm": Traits(products=True),
    "MatMul": Traits(products=True),
    "AveragePool": Traits(later=("ceil_mode",)),
    "GRU": _RECURRENT,
    "LSTM": _RECURRENT,
    "RNN": _RECURRENT,
    "QLinearConv": _QLINEAR,
    "QLinearMatMul": _QLINEAR,
    "ConvInteger": _INTEGER_PRODUCT,
    "MatMulInteger": _INTEGER_PRODUCT,
    "AffineGrid": Traits(size=_SHAPE_IN_SECOND),
    "Col2Im": Traits(size=_SHAPE_IN_SECOND),
    "MaxUnpool": Traits(size=(Size.SHAPE, (2,))),
    "DFT": Traits(size=_TIMES_SECOND),
    "STFT": Traits(size=(Size.FRAMES, (1, 3))),
    "TfIdfVectorizer": Traits(
        restrictions=(
            Restriction(1, _NEVER, _has("pool_strings"), frozenset({DataType.STRING}), "pool_strings is of strings"),
            Restriction(1, _NEVER, _has("pool_int64s"), _INTEGERS, "pool_int64s is of integers"),
        ),
    ),
}

_CONTRIB_PRODUCTS = (
    *("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "FusedGemm", "GemmFastGelu", "FusedConv", "NhwcConv"),
    *("NhwcFusedConv", "MatMulNBits", "MatMulBnb4", "MatMulFpQ4", "MoE", "QMoE", "Attention", "PackedAttention"),
    *("MultiHeadAttention", "PackedMultiHeadAttention", "DecoderMaskedMultiHeadAttention", "GroupQueryAttention"),
    *("SparseAttention", "PagedAttention", "LongformerAttention", "LinearAttention", "AttnLSTM"),
)

TRAITS: Mapping[tuple[str, str], Traits] = {
    **{("", op_type): row for op_type, row in _STANDARD.items()},
    **{("com.microsoft", op_type): Traits(products=True) for op_type in _CONTRIB_PRODUCTS},
    ("ai.onnx.preview", "FlexAttention"): Traits(types=_SOFTMAX_PRECISION),
    ("ai.onnx.ml", "LabelEncoder"): Traits(
        restrictions=(
            Restriction(2, _NEVER, _has("keys_strings"), frozenset({DataType.STRING}), "its keys are strings"),
            Restriction(2, _NEVER, _has("keys_int64s"), frozenset({DataType.INT64}), "its keys are int64"),
            Restriction(2, _NEVER, _has("keys_floats"), frozenset({DataType.FLOAT}), "its keys are float"),
        )
    ),
}
"""By domain and operator, for all opsets that have the operator."""

_NOTHING = Traits()


def traits_of(domain: str, op_type: str) -> Traits:
    """Return the row of the operator; one without any trait if the table has none."""
    return TRAITS.get(("" if domain == "ai.onnx" else domain, op_type), _NOTHING)


def operators(wanted: Callable[[Traits], object]) -> frozenset[str]:
    """Return the operators of the standard's main domain whose row is `wanted`."""
    return frozenset(op_type for op_type, row in _STANDARD.items() if wanted(row))


MOVERS = operators(lambda row: row.moves is not None and not row.computes)
"""Operators that only move elements, or ignore them, whatever their type."""
CASTS = operators(lambda row: row.conversion is Conversion.CAST)
CONVERSIONS = operators(lambda row: row.conversion is not None)
LINEAR = operators(lambda row: row.conversion in (Conversion.QUANTIZE, Conversion.DEQUANTIZE))
FLOW = operators(lambda row: row.moves is Moves.FLOW)
"""Operators of control flow, whose subgraphs values enter and leave."""
RUNS_GRAPHS = operators(lambda row: row.runs_graphs)
GIVES_BOOL = operators(lambda row: row.answer in (Answer.COMPARISON, Answer.QUESTION, Answer.LOGIC))


def input_kind(domain: str, op_type: str, index: int) -> Input:
    """Return the kind of input `index` of the operator."""
    row = traits_of(domain, op_type)
    if row.stored is None or index in row.stored:
        return Input.STORED
    return Input.QUANTIZATION if index in row.scaling else Input.OPERAND


def type_attributes(domain: str, op_type: str) -> Mapping[str, Role]:
    """Return the attributes of the operator that name an element type, with the role of each."""
    return traits_of(domain, op_type).types or {}


def named_types(node: onnx_ir.Node) -> dict[str, DataType | None]:
    """Return the types that attributes of the node name; None for a parameter of the enclosing function."""
    dtypes: dict[str, DataType | None] = {}
    for name in type_attributes(node.domain, node.op_type):
        attribute = node.attributes.get(name)
        if attribute is not None and attribute.is_ref():
            dtypes[name] = None
        elif attribute is not None and (dtype := named_type(attribute)) is not None:
            dtypes[name] = dtype
    return dtypes


def restriction(node: onnx_ir.Node, opset: int) -> Restriction | None:
    """Return the operator's documented restriction on the type of its first input; None if unrestricted.

    A node is never given a type that a row forbids. A node that has it already is left alone, as the checker accepts
    it.
    """
    rows = traits_of(node.domain, node.op_type).restrictions
    return next((row for row in rows if row.since <= opset <= row.until and row.applies(node)), None)
