"""A 16-bit float type that the target lacks, stored in float: each value exact, each result rounded in place."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.io.streaming import computed, is_large
from castsmith.ir.naming import Namer
from castsmith.ir.ops.casts import read_cast
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import CASTS, CONVERSIONS, MOVERS, RUNS_GRAPHS, operators
from castsmith.ir.ops.traits import Rounding
from castsmith.ir.ops.value_types import with_element_type
from castsmith.ir.records import Diagnostic, Effect, Records, Refusal, Rewrite, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, all_values
from castsmith.lowering.builder import (
    Builder,
    ConstantHome,
    ReplacementBuilder,
    as_replacement,
    new_constants,
    shared_constants,
)
from castsmith.lowering.encodings.integer import rounds_since, wide
from castsmith.lowering.encodings.ladder import ROUND_IN_PLACE, round_in_place
from castsmith.lowering.encodings.storage import inferred_declared, recorded_retyping, retyped_attributes
from castsmith.lowering.float8.functions import Functions
from castsmith.lowering.float8.needs import TYPE_NOT_IN_TARGET, Types, is_coded, touches_coded
from castsmith.lowering.formats import NarrowPolicy
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import apply_replacement
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

# Effect of computing an operator of float16 or bfloat16 in float, rounded once.

_EXACTLY_ROUNDED = operators(lambda row: row.rounding is not None)
"""Operators whose result is one number rounded once, or one of the operands.

float has at least twice the precision of these types and two bits more, and their quotients and products are not closer
to the midpoint of two subnormal numbers than float resolves, so that rounding to float first makes no difference.
"""


WIDEN_STORAGE = Rule(
    "widen-storage",
    ("Values of an unsupported 16-bit float type are stored in float. Skipped if an operator does not allow float."),
    why="float holds each value exactly.",
    example="- bfloat16[4] w\n+ float[4] w",
    advice="Feed and read float for the inputs and outputs that the record names.",
    safety=(Effect.BIT_EXACT, Effect.INTERFACE),
)


def effect_in_float(node: onnx_ir.Node) -> Effect:
    """Return BIT_EXACT if the operator's definition leaves only one rounding."""
    exact = node.op_type in _EXACTLY_ROUNDED or (node.op_type in MOVERS and not _reduces(node))
    return Effect.BIT_EXACT if exact else Effect.IN_WIDER_TYPE


def _reduces(node: onnx_ir.Node) -> bool:
    """True for a scatter that adds or multiplies."""
    return node.attributes.get_string("reduction", "none") not in ("none", "max", "min")


NAME = "widen-floats"
_NOT_NUMBERS = (None, DataType.STRING, DataType.COMPLEX64, DataType.COMPLEX128)
_NOT_IN_FLOAT = CONVERSIONS - CASTS
_EXACT = MOVERS | RUNS_GRAPHS | operators(lambda row: row.rounding is Rounding.NONE)


def widen_storage(
    session: Session, target: Target, dtype: DataType, records: Records, *, emit_functions: bool = False
) -> None:
    """Make every value of the type a float; nothing changes if a node cannot be computed so.

    Args:
        emit_functions: Make each rounding one call of a function, except within functions.
    """
    model, types = session.model, session.inference(PromotionRules()).types
    nodes = [node for node in all_nodes(model) if touches_coded(node, types, (dtype,))]
    values = [value for value in all_values(model) if is_coded(value, types, (dtype,))]
    refusals = [
        Refusal(NAME, WIDEN_STORAGE.code, site_of(node), reason)
        for node in nodes
        if (reason := _obstacle(node, types, dtype, model)) is not None
    ]
    if refusals:
        records.refusals += refusals
        message = f"{target} has no {type_name(dtype)}, but {refusals[0].reason}"
        records.diagnostics.append(Diagnostic(TYPE_NOT_IN_TARGET.code, Severity.ERROR, refusals[0].site, message))
        return
    reason = f"the same numbers, because {target} has no {type_name(dtype)}"
    with inferred_declared(model, types):
        for value in values:
            records.rewrites += recorded_retyping(
                model, value, (dtype,), DataType.FLOAT, widened_tensor, NAME, WIDEN_STORAGE, reason
            )
        session.changed()
        namer = session.namer()
        shared = shared_constants(model, namer, "castsmith_") if namer.takes_initializers(model.graph) else None
        functions = Functions(model, opset_of(model.graph.opset_imports, "") or 0) if emit_functions else None
        inside = {node for function in model.functions.values() for node in function.all_nodes()}
        for node in nodes:
            for attribute in retyped_attributes(node, (dtype,), DataType.FLOAT, widened_tensor):
                node.attributes[attribute.name] = attribute
            called = node.op_identifier() in model.functions
            if not called and not _is_exact(node) and any(is_coded(y, types, (dtype,)) for y in node.outputs):
                places = (None, None) if node in inside else (shared, functions)
                records.rewrites.append(_round_results(session, node, types, dtype, target, namer, *places))


def _obstacle(node: onnx_ir.Node, types: Types, dtype: DataType, model: onnx_ir.Model) -> str | None:
    if node.op_identifier() in model.functions:
        return None
    opset = opset_of(model.graph.opset_imports, "") or 0
    cast_from = types.get(x, x.dtype) if node.op_type in CASTS and (x := node.inputs[0]) else None
    since, operator = rounds_since(cast_from)
    if opset < since and not _is_exact(node) and any(is_coded(y, types, (dtype,)) for y in node.outputs):
        return f"rounding the result of {node.op_type} needs {operator}: raise the opset from {opset} to {since}"
    if node.domain not in DEFAULT_DOMAINS:
        return f"{node.domain}.{node.op_type} may compute something else in float"
    like = node.inputs[1] if node.op_type == "CastLike" else None
    meaning = read_cast(node, None if like is None else types.get(like, like.dtype))
    if meaning is not None:
        x = node.inputs[0]
        source = None if x is None else types.get(x, x.dtype)
        # The text of a number depends on its type: float16 has "0.1" where float has "0.099975586".
        if source in _NOT_NUMBERS or meaning.to == DataType.STRING:
            names = (type_name(kind) if kind else "?" for kind in (meaning.to, source))
            return "a cast to {} from {} has no exact replacement".format(*names)
        return None
    return f"{node.op_type} has no exact sequence in float" if node.op_type in _NOT_IN_FLOAT else None


def _is_exact(node: onnx_ir.Node) -> bool:
    """True if the results have no more digits than the operands, or than the results of subgraphs."""
    return node.op_type in _EXACT and not _reduces(node)


def widened_tensor(tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    """Return the same numbers in float; those of a large tensor are computed when it is saved."""
    if is_large(tensor):
        return computed(tensor, DataType.FLOAT, lambda array: cast(array, DataType.FLOAT), tensor.name or "")
    return onnx_ir.tensor(cast(tensor.numpy(), DataType.FLOAT), name=tensor.name, doc_string=tensor.doc_string)


def _round_results(
    session: Session,
    node: onnx_ir.Node,
    types: Types,
    dtype: DataType,
    target: Target,
    namer: Namer,
    shared: ConstantHome | None,
    functions: Functions | None,
) -> Rewrite:
    """Round the node's results, or the operand of a cast, to the values of the type."""
    build = ReplacementBuilder(node, "", shared, doubles=bool(target.as_written))
    if node.op_type in CASTS:
        x = node.inputs[0]
        x = present(x, "the operand")
        in_float = types.get(x, x.dtype) == dtype or x.dtype == DataType.FLOAT
        results = [x if in_float else wide(build, x)]
    else:
        again = onnx_ir.Node(
            "", node.op_type, node.inputs, list(node.attributes.values()), num_outputs=len(node.outputs)
        )
        build.nodes.append(again)
        results = list(again.outputs)
    outputs: list[onnx_ir.Value] = []
    for old, result in zip(node.outputs, results, strict=True):
        narrow = is_coded(old, types, (dtype,))
        if node.op_type not in CASTS:
            result.type, result.shape = with_element_type(old.type, DataType.FLOAT) if narrow else old.type, old.shape
            result.name = f"{old.name}_float" if narrow and old.name else old.name
        rounds = narrow and old.name != ""
        outputs.append(_rounded(build, result, dtype, functions) if rounds else result)
    reason = f"computed in float and rounded to {type_name(dtype)}, which {target} lacks"
    replacement = as_replacement(build, ROUND_IN_PLACE.code, reason, *outputs, effect=effect_in_float(node))
    return apply_replacement(session, NAME, node, replacement, namer, types)


def _rounded(build: Builder, x: onnx_ir.Value, dtype: DataType, functions: Functions | None) -> onnx_ir.Value:
    """Return the number rounded to the type, in float; with functions by one call."""
    if functions is None:
        return build.cast(round_in_place(build, x, dtype, NarrowPolicy()), DataType.FLOAT)
    inner = Builder(new_constants([]), doubles=build.doubles)
    y = inner.cast(round_in_place(inner, x, dtype, NarrowPolicy()), DataType.FLOAT)
    build.nodes += functions.wrap(f"round_to_{type_name(dtype)}", tuple(inner.nodes), y)
    return build.nodes[-1].outputs[0]
