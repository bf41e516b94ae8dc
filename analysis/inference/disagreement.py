"""Inputs of one node that must share a type and do not, or that have an unsupported type.

An unsupported type becomes the narrowest supported type that holds all of its values. If that is a type of
the same kind the result is cast back, since wider arithmetic followed by Cast is arithmetic in the type itself
(modulo 2**bits for integers; one rounding for floats). If the kind changes (Softmax of int32, Sub of bool) the
result keeps the wide type. If the model declares a suitable result type, that type is used.

Addition and similar operators on bool mean the same in PyTorch, NumPy and JAX: `Add` is `Or`, `Mul` is `And`. Sum
supports no integers, and becomes a chain of Add, which does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import not_cast, way_out_of
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, OpKey, TypeGroup, actual_inputs, actual_outputs
from castsmith.ir.ops.table import input_kind, named_types, operators, restriction, traits_of
from castsmith.ir.ops.traits import Input
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.promotion.scalars import common_type_of_constants
from castsmith.numerics.types import Kind, element_type, type_name

_BROADCASTING_SINCE = 7


def boolean_operator(key: OpKey, dtype: DataType) -> str | None:
    """Return the logical operator that the arithmetic operator is on bool, or None."""
    domain, op_type, opset = key
    if dtype is not DataType.BOOL or domain not in DEFAULT_DOMAINS or opset < _BROADCASTING_SINCE:
        return None
    return traits_of(domain, op_type).on_bool


def _in_pairs(key: OpKey, dtype: DataType) -> tuple[str, DataType] | None:
    """Return the operator that computes the node's result in pairs of integers, and its type for them; None if none."""
    domain, op_type, opset = key
    operator = (
        traits_of(domain, op_type).in_pairs if domain in DEFAULT_DOMAINS and opset >= _BROADCASTING_SINCE else None
    )
    formal = None if operator is None else actual_inputs((domain, operator, opset), 2)[0]
    if operator is None or formal is None or element_type(dtype).kind is not Kind.INTEGER:
        return None
    wider = wider_type(dtype, formal.allowed)
    return None if wider is None or not returns_to(dtype, wider) else (operator, wider)


@cache
def wider_type(dtype: DataType, allowed: frozenset[DataType]) -> DataType | None:
    """Return the type of `allowed` that holds `dtype`: lowest kind, then narrowest, then same signedness."""
    source = element_type(dtype)
    signed = source.signed or source.kind is Kind.BOOLEAN
    rows = [element_type(candidate) for candidate in allowed if embeds(dtype, candidate)]
    rows.sort(key=lambda row: (row.kind, row.bits, row.signed != signed, -row.mantissa_bits))
    return rows[0].dtype if rows else None


def returns_to(ruled: DataType, wider: DataType) -> bool:
    """True if a result computed in `wider`, because `ruled` is unsupported, is cast back to `ruled`."""
    return element_type(ruled).kind is element_type(wider).kind


def not_taken(key: OpKey, group: TypeGroup, dtype: DataType, node: onnx_ir.Node, *, common: bool) -> str:
    """Return the reason why there is no suitable type, with the opset that would allow it."""
    index = group.indexes[0]
    place = f" as input {index}" if index else ""
    what = f"{type_name(dtype)}, their common type," if common else f"{type_name(dtype)}{place}"
    later = _first_opset(key, lambda version: _takes(version, index, dtype) and _unrestricted(node, version, dtype))
    row = restriction(node, key[2]) if index == 0 else None
    because = "" if row is None else f": {row.because}"
    return f"{_operator(key)} supports neither {what} nor a type that holds it{because} ({way_out_of(later)})."


def not_passed_on(key: OpKey, dtype: DataType) -> str:
    """Return the reason why control flow cannot pass on a value of the type, with the opset that would allow it."""
    way_out = way_out_of(_first_opset(key, lambda version: _gives(version, dtype)))
    return f"{_operator(key)} does not pass on {type_name(dtype)} ({way_out})."


def not_an_operand(key: OpKey, dtype: DataType, wanted: DataType) -> str:
    """Return the reason why a condition or count of control flow cannot be of the type."""
    return f"{_operator(key)} needs {type_name(wanted)}, not {type_name(dtype)}."


def contradicted(node: onnx_ir.Node, inputs: Sequence[DataType | None]) -> Disagreement | None:
    """Return the operand whose type contradicts an attribute of the node, by the operator's text, or None."""
    named = named_types(node)
    to, text, index = named.get("to") or named.get("output_dtype"), "", 0
    if to is None or node.op_type not in ("BitCast", "QuantizeLinear"):
        return None
    if node.op_type == "BitCast" and (source := inputs[0]) is not None:
        widths = element_type(source).stored_bits, element_type(to).stored_bits
        if widths[0] != widths[1]:
            text = f"BitCast to {type_name(to)} needs an operand of {widths[1]} bits, not of {widths[0]}."
    if node.op_type == "QuantizeLinear" and len(inputs) > 2 and inputs[2] not in (None, to):
        index, text = 2, f"QuantizeLinear to {type_name(to)} by its output_dtype needs a zero point of that type."
    dtype = inputs[index]
    if not text or dtype is None:
        return None
    return Disagreement(node, (index,), (dtype,), None, PromotionError(text, rule="operator"))


def _operator(key: OpKey) -> str:
    domain, op_type, opset = key
    return f"{op_type} of " + (f"opset {opset}" if domain in DEFAULT_DOMAINS else f"version {opset} of {domain}")


def _first_opset(key: OpKey, allows: Callable[[OpKey], bool]) -> int | None:
    domain, op_type, opset = key
    later = range(opset + 1, onnx.defs.onnx_opset_version() + 1)
    return next((version for version in later if allows((domain, op_type, version))), None)


def _unrestricted(node: onnx_ir.Node, key: OpKey, dtype: DataType) -> bool:
    row = restriction(node, key[2])
    return row is None or dtype in row.allowed


def _takes(key: OpKey, index: int, dtype: DataType) -> bool:
    formal = actual_inputs(key, index + 1)[index]
    return formal is not None and dtype in formal.allowed


def _gives(key: OpKey, dtype: DataType) -> bool:
    return any(formal is not None and dtype in formal.allowed for formal in actual_outputs(key, 1))


_NEVER_SCALAR = operators(lambda row: row.never_scalar)
"""Operators without scalar operands and results, except Unsqueeze's operand, which is alone."""

_WITHOUT_SCALARS = _NEVER_SCALAR | {"MatMul"}
"""Operators without scalar operands."""

_ELEMENTWISE = operators(lambda row: row.elementwise and not row.keeps_shape)
_SAME_RANK = operators(lambda row: row.keeps_shape)
_MOST_VALUES = 64
"""How many values are asked for their rank, so that long graphs without shapes take no quadratic time."""

Ranks = Mapping[onnx_ir.Value, int | None]


@dataclass(frozen=True)
class Disagreement:
    """Inputs `indexes` of `node` have `types` and get `common`.

    Attributes:
        common: None if `error` gives the reason, or if an unknown rank leaves it undecided.
        ruled: The result of the promotion rule, if it is unsupported and `common` is a wider type.
        restored: The indices of the outputs that are cast back from `common` to `ruled`.
        as_declared: The operator may mix types, but the model declares its result with the promoted type.
        pairwise: The operator of two operands that replaces the node: logic on bool, Add in place of Sum on integers.
        kinds: The kind of each input, if not all are operands to compute with.
        as_cast: A CastLike does not support the types, but Cast does.
    """

    node: onnx_ir.Node
    indexes: tuple[int, ...]
    types: tuple[DataType, ...]
    common: DataType | None
    error: PromotionError | None = None
    as_declared: bool = False
    ruled: DataType | None = None
    restored: tuple[int, ...] = ()
    pairwise: str | None = None
    kinds: tuple[Input, ...] = ()
    as_cast: bool = False

    @property
    def mixed(self) -> bool:
        return len(set(self.types)) > 1

    def result(self, index: int) -> DataType | None:
        """Return the type of output `index`, if it is bound like the inputs."""
        return self.ruled if index in self.restored else self.common


def settle(
    node: onnx_ir.Node,
    key: OpKey,
    group: TypeGroup,
    inputs: Sequence[DataType | None],
    ranks: Ranks,
    rules: PromotionRules,
) -> Disagreement | None:
    """Return the disagreement of the inputs of the group with its repair; None if there is no disagreement."""
    typed = tuple((index, dtype) for index in group.indexes if (dtype := inputs[index]) is not None)
    types = tuple(dtype for _, dtype in typed)
    if not types or (len(set(types)) == 1 and types[0] in group.allowed):
        return None
    indexes = tuple(index for index, _ in typed)
    kinds = _kinds(key, indexes)
    disagreement = promoted(Disagreement(node, indexes, types, None, kinds=kinds), ranks, rules)
    if disagreement.error is not None and disagreement.error.option == "promote_unsafe" and not rules.promote_unsafe:
        unsafe = settle(node, key, group, inputs, ranks, replace(rules, promote_unsafe=True))
        decided = None if unsafe is None else with_legal_casts(unsafe, key[2])
        return disagreement if decided is None or decided.error is None else decided  # the option alone would not help
    row = restriction(node, key[2]) if 0 in group.indexes else None
    group = group if row is None else replace(group, allowed=group.allowed & row.allowed)
    if disagreement.common is None or disagreement.common in group.allowed:
        return disagreement
    return _legal(disagreement, disagreement.common, key, group)


def with_legal_casts(disagreement: Disagreement, opset: int) -> Disagreement:
    """Return the disagreement, or a refusal if Cast does not support the required types at that opset."""
    if disagreement.common is None:
        return disagreement
    types = [
        *disagreement.types,
        disagreement.common,
        *([disagreement.ruled] if disagreement.ruled is not None else []),
    ]
    why = not_cast(types, opset) if len(set(types)) > 1 or disagreement.as_cast else None
    return disagreement if why is None else _without_cast(disagreement, why)


def _without_cast(disagreement: Disagreement, why: str) -> Disagreement:
    text = f"{disagreement.node.op_type} needs a cast of its operands here, and {why}"
    return replace(disagreement, common=None, error=PromotionError(text, rule="operator"))


def cast_like(node: onnx_ir.Node, key: OpKey, inputs: Sequence[DataType | None]) -> Disagreement | None:
    """Return the repair of a CastLike of unsupported types: a Cast, since another second operand would change it."""
    if node.op_type != "CastLike" or len(inputs) != 2 or inputs[0] is None or inputs[1] is None:
        return None
    formals = zip(inputs, actual_inputs(key, 2), strict=True)
    if all(formal is None or dtype in formal.allowed for dtype, formal in formals):
        return None
    return with_legal_casts(Disagreement(node, (0, 1), (inputs[0], inputs[1]), inputs[1], as_cast=True), key[2])


def _kinds(key: OpKey, indexes: tuple[int, ...]) -> tuple[Input, ...]:
    kinds = tuple(input_kind(key[0], key[1], index) for index in indexes)
    return kinds if set(kinds) != {Input.OPERAND} else ()


def promoted(disagreement: Disagreement, ranks: Ranks, rules: PromotionRules) -> Disagreement:
    """Return the disagreement with the common type of the rules, or their refusal."""
    kinds = disagreement.kinds or (Input.OPERAND,) * len(disagreement.indexes)
    operands = [
        (dtype, *_rank_and_scalar(disagreement.node, disagreement.node.inputs[index], kind, ranks, rules))
        for index, dtype, kind in zip(disagreement.indexes, disagreement.types, kinds, strict=True)
    ]
    try:
        return replace(disagreement, common=common_type_of_constants(operands, rules))
    except PromotionError as refusal:
        return replace(disagreement, error=refusal)


def _rank_and_scalar(
    node: onnx_ir.Node, value: onnx_ir.Value | None, kind: Input, ranks: Ranks, rules: PromotionRules
) -> tuple[int | None, object | None]:
    """Return the rank that counts for an input, and its value if it is a constant that need not widen others.

    An input that is not an operand to compute with counts as a tensor at any rank. A scale, also of a normalization,
    gives way to 16-bit operands alone.
    """
    rank = _rank_at(node, value, ranks) if kind is Input.OPERAND else 1
    return rank, _scalar(value, rules) if kind is not Input.QUANTIZATION or rules.half_constants else None


def rank_of(value: onnx_ir.Value | None, ranks: Ranks) -> int | None:
    """Return the number of dimensions, known from the model or a function's call."""
    if value is None:
        return None
    if value in ranks:
        return ranks[value]
    tensor = constant_tensor(value)
    if tensor is not None:
        return tensor.shape.rank()
    return None if value.shape is None else value.shape.rank()


def _rank_at(node: onnx_ir.Node, value: onnx_ir.Value | None, ranks: Ranks) -> int | None:
    """Return the rank of an operand as far as it matters: 0 or more. Exporters do not always write shapes."""
    rank = rank_of(value, ranks)
    if rank is None:
        return 1 if node.op_type in _WITHOUT_SCALARS else _computed_rank(value, ranks)
    return rank


def _computed_rank(value: onnx_ir.Value | None, ranks: Ranks) -> int | None:
    """Return 1 for the result of operators that keep the dimensions of a value that has some, 0 if none has any."""
    asked, result = [value], 0
    for source in asked:
        rank = rank_of(source, ranks)
        node = source.producer() if source is not None and rank is None else None
        if rank or (node is not None and node.op_type in _NEVER_SCALAR):
            return 1
        if rank is None and (
            node is None or node.op_type not in _ELEMENTWISE | _SAME_RANK or len(asked) > _MOST_VALUES
        ):
            result = None
        elif node is not None:
            inputs = node.inputs if node.op_type in _ELEMENTWISE else node.inputs[:1]
            asked += [operand for operand in inputs if operand is not None and operand not in asked]
    return result


def _scalar(value: onnx_ir.Value | None, rules: PromotionRules) -> object | None:
    tensor = constant_tensor(value) if rules.weak_scalars or rules.half_constants else None
    if tensor is None or (tensor.shape.rank() and not (rules.half_constants and tensor.dtype in _WIDE)):
        return None
    return tensor.numpy()


_WIDE = (DataType.FLOAT, DataType.DOUBLE)
"""The types of constants that may give way to 16-bit operands."""


def _legal(disagreement: Disagreement, ruled: DataType, key: OpKey, group: TypeGroup) -> Disagreement:
    """Return the disagreement with a supported type, if `ruled` is unsupported."""
    formals = actual_outputs(key, len(disagreement.node.outputs))
    results = tuple(i for i, formal in enumerate(formals) if formal is not None and formal.variable == group.variable)
    declared = {disagreement.node.outputs[index].dtype for index in results}
    declared_type = next((d for d in declared if d is not None and d in group.allowed and embeds(ruled, d)), None)
    if declared_type is not None:
        return replace(disagreement, common=declared_type, ruled=ruled)
    logical = boolean_operator(key, ruled)
    if logical is not None:
        return replace(disagreement, common=ruled, pairwise=logical)
    pairwise = _in_pairs(key, ruled)
    if pairwise is not None:
        operator, common = pairwise
        disagreement = replace(disagreement, common=common, pairwise=operator)
        return disagreement if common == ruled else replace(disagreement, ruled=ruled, restored=results)
    wider = wider_type(ruled, group.allowed)
    if wider is None:
        error = PromotionError(
            not_taken(key, group, ruled, disagreement.node, common=disagreement.mixed), rule="operator"
        )
        return replace(disagreement, common=None, error=error)
    return replace(disagreement, common=wider, ruled=ruled, restored=results if returns_to(ruled, wider) else ())
