"""The attributes that name element types, by operator: the one list of them.

A test compares it with the schemas of every opset. Cast-1 and CastMap name types by text, and are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import onnx_ir
from onnx_ir import AttributeType, DataType


class Role(Enum):
    """What the named type is the type of."""

    RESULT = "an output of the node"
    COMPUTE = "steps inside the node, and outputs that are by-products of them"


_DTYPE: Mapping[str, Role] = {"dtype": Role.RESULT}
_OUTPUT_DATATYPE: Mapping[str, Role] = {"output_datatype": Role.RESULT}
_STASH_TYPE: Mapping[str, Role] = {"stash_type": Role.COMPUTE}
_SOFTMAX_PRECISION: Mapping[str, Role] = {"softmax_precision": Role.COMPUTE}
_NONE: Mapping[str, Role] = {}

TYPE_ATTRIBUTES: Mapping[tuple[str, str], Mapping[str, Role]] = {
    ("", "Attention"): _SOFTMAX_PRECISION,
    ("", "Bernoulli"): _DTYPE,
    ("", "BitCast"): {"to": Role.RESULT},
    ("", "BlackmanWindow"): _OUTPUT_DATATYPE,
    ("", "Cast"): {"to": Role.RESULT},
    ("", "DequantizeLinear"): {"output_dtype": Role.RESULT},
    ("", "EyeLike"): _DTYPE,
    ("", "GroupNormalization"): _STASH_TYPE,
    ("", "HammingWindow"): _OUTPUT_DATATYPE,
    ("", "HannWindow"): _OUTPUT_DATATYPE,
    ("", "LayerNormalization"): _STASH_TYPE,
    ("", "MelWeightMatrix"): _OUTPUT_DATATYPE,
    ("", "Multinomial"): _DTYPE,
    ("", "QuantizeLinear"): {"output_dtype": Role.RESULT, "precision": Role.COMPUTE},
    ("", "RMSNormalization"): _STASH_TYPE,
    ("", "RandomNormal"): _DTYPE,
    ("", "RandomNormalLike"): _DTYPE,
    ("", "RandomUniform"): _DTYPE,
    ("", "RandomUniformLike"): _DTYPE,
    ("", "Range"): _STASH_TYPE,
    ("", "SequenceEmpty"): _DTYPE,
    ("ai.onnx.preview", "FlexAttention"): _SOFTMAX_PRECISION,
}
"""By domain and operator, for all opsets that have the attribute; its value is the number of a type, or 0 for none."""


def type_attributes(domain: str, op_type: str) -> Mapping[str, Role]:
    """The attributes of the operator that name an element type, with what each is the type of."""
    return TYPE_ATTRIBUTES.get(("" if domain == "ai.onnx" else domain, op_type), _NONE)


def named_types(node: onnx_ir.Node) -> dict[str, DataType | None]:
    """The types that attributes of the node name; None for one that is a parameter of the function around it."""
    found: dict[str, DataType | None] = {}
    for name in type_attributes(node.domain, node.op_type):
        attribute = node.attributes.get(name)
        if attribute is not None and attribute.is_ref():
            found[name] = None
        elif attribute is not None and attribute.type == AttributeType.INT and attribute.value in _NUMBERS:
            found[name] = DataType(attribute.as_int())
    return found


_NUMBERS = frozenset(int(dtype) for dtype in DataType) - {int(DataType.UNDEFINED)}
