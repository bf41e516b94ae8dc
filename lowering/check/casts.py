"""Chains of casts that lose values that one cast would keep, each with a witness value.

Two casts also form a chain if the values between them are only moved. A chain that is proven to be equal to one cast
(`castsmith.ir.ops.casts.chain_verdict`), or is so for the integers that can reach it, is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference, called_with_several_types
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import CastNode, chain_verdict
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.records import Diagnostic, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, graph_of, imports_by_scope
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.types import ElementType, Kind, element_type, type_name
from castsmith.passes.core.casts import cast_before, cast_of, harmless
from castsmith.passes.place.movable import data_inputs

_TELLING = (0.1, 1 / 3, 3, 1 + 2**-11 + 2**-40, 1e5, 300, 2**24 + 1, 2**31 + 5, 2**53 + 1, -1)
"""Numbers that may show a loss: easier to follow than the witness of the proof, a subnormal."""

_NEAR = 2
"""Largest relative distance between a saturating bound and the largest number of a type."""

LOSSY_CAST_CHAIN = FindingCode(
    "lossy-cast-chain",
    "A value is cast to a narrower type and back, which loses precision.",
    why=(
        "The lost precision does not come back. This may be intended, to simulate a narrow type. Often it "
        "is left over from a tool that added casts around each operator."
    ),
    example=(
        "a = Cast <to = float16> (x)  # (float[N]) -> float16[N]\ny = Cast <to = float> (a)  # 0.1 becomes 0.0999756"
    ),
    advice="If the rounding is not intended, remove both casts. Otherwise pass --ignore lossy-cast-chain.",
    outcomes=(Outcome.NEITHER,),
    fix="manual",
    silence="If the rounding is intended.",
)
DOUBLE_ROUNDING = FindingCode(
    "double-rounding",
    "A floating-point value is rounded twice: to one type, then to a narrower one.",
    why="The result can differ from a single rounding, because the first rounding can produce a tie.",
    example=(
        "a = Cast <to = float> (x)  # (double[N]) -> float[N]\ny = Cast <to = float16> (a)  # 1.00048828 becomes 1"
    ),
    advice="Cast directly to the final type.",
    outcomes=(Outcome.LOSSY,),
    fix="manual",
    silence="If the first rounding is intended, for example to match another device.",
)
NAN_LOST_IN_CHAIN = FindingCode(
    "nan-lost-in-chain",
    "A floating-point value is cast to a type without NaN, and back.",
    why="NaN becomes a number, which depends on the runtime.",
    example="a = Cast <to = int32> (x)  # (float[N]) -> int32[N]\ny = Cast <to = float> (a)",
    advice="Round in the floating-point type (Floor, Round, ...), or test with IsNaN before the casts.",
    outcomes=(Outcome.NEITHER,),
    fix="manual",
    silence="If no NaN occurs.",
)
NAN_LOST_BY_CLIP = FindingCode(
    "nan-lost-by-clip",
    "Clip, Min or Max saturates a value before a cast to a narrower floating-point type.",
    why=(
        "Some runtimes return the bound for NaN, so NaN becomes the largest number. A Cast to float8 "
        "saturates by itself, and keeps NaN."
    ),
    example="c = Clip (x, -448, 448)\ny = Cast <to = float8e4m3fn> (c)",
    advice="Leave the saturation to the cast; for types that do not saturate restore NaN: Where (IsNaN (x), x, c).",
    outcomes=(Outcome.UNCERTAIN,),
    fix="manual",
    silence="If no NaN occurs.",
)


@dataclass(frozen=True)
class _Chain:
    """Two casts, `first` of a value of type `source`, and the opset of the second."""

    source: DataType
    first: CastNode
    last: CastNode
    opset: int

    @property
    def types(self) -> tuple[DataType, DataType, DataType]:
        return self.source, self.first.target, self.last.target

    def __str__(self) -> str:
        return " to ".join(map(type_name, self.types))


def cast_findings(model: onnx_ir.Model, inference: Inference) -> Iterator[Diagnostic]:
    """Yield chains of casts that lose values, round twice or lose NaN, and NaN lost by saturating before a cast."""
    imports, ranges = imports_by_scope(model), Ranges(inference)
    ambiguous = called_with_several_types(inference)
    for node in all_nodes(model):
        step = cast_of(node, inference)
        if step is None or node.graph in ambiguous:
            continue
        value, last = _unmoved(step[0]), step[2]
        finding = _chain_finding(node, value, last, opset_of(imports[graph_of(node)], "") or 1, inference, ranges)
        if finding is not None:
            yield finding
        elif value is not None and (text := _saturates(value, last.target, inference)):
            way_out = "leave saturation to the cast if it saturates, or restore NaN after it with IsNaN and Where"
            yield Diagnostic(NAN_LOST_BY_CLIP.code, Severity.WARNING, site_of(node), text, way_out)


def _unmoved(value: onnx_ir.Value | None) -> onnx_ir.Value | None:
    """Return the value whose elements are moved to give this one."""
    while value is not None and (node := value.producer()) is not None:
        indexes = data_inputs(node)
        if indexes is None or len(indexes) != 1:
            break
        value = node.inputs[indexes[0]]
    return value


def _chain_finding(
    node: onnx_ir.Node,
    value: onnx_ir.Value | None,
    last: CastNode,
    opset: int,
    inference: Inference,
    ranges: Ranges,
) -> Diagnostic | None:
    step = cast_before(value, inference)
    if step is None or constant_tensor(step[0]) is not None:
        return None
    range_ = ranges.get(step[0])
    if range_ is not None and harmless(range_, step[1], step[2], last):
        return None
    chain = _Chain(step[1], step[2], last, opset)
    try:
        verdict = chain_verdict(chain.source, chain.first, last, opset)
    except (ElementTypeError, CastError):
        return None  # a type that Cast does not support, which is a separate finding
    return None if verdict.witness is None else _classified(node, chain, verdict.witness)  # text has none


def _classified(node: onnx_ir.Node, chain: _Chain, witness: float) -> Diagnostic | None:
    """Return the finding for the chain: NaN lost, a second rounding, or values lost that one cast would keep."""
    a, b, c = map(element_type, chain.types)
    site = site_of(node)
    if a.has_nan and c.has_nan and not b.has_nan:
        message = f"{chain} loses NaN, which {type_name(b.dtype)} does not have"
        way_out = "round in the floating-point type, for example with Floor or Round, to keep NaN"
        return Diagnostic(NAN_LOST_IN_CHAIN.code, Severity.NOTE, site, message, way_out)
    value, through, at_once = _example(chain, witness)
    if embeds(a.dtype, c.dtype):
        message = f"{chain} loses values that {type_name(c.dtype)} holds: {value} becomes {through}"
        return Diagnostic(
            LOSSY_CAST_CHAIN.code, Severity.NOTE, site, message, "remove both unless the rounding is intended"
        )
    if _floats(a, b, c) and not embeds(b.dtype, c.dtype):
        message = f"{chain} rounds twice: {value} becomes {through}, and by one cast {at_once}"
        way_out = f"cast from {type_name(a.dtype)} to {type_name(c.dtype)} directly if one rounding is intended"
        return Diagnostic(DOUBLE_ROUNDING.code, Severity.WARNING, site, message, way_out)
    return None


def _floats(*rows: ElementType) -> bool:
    return all(row.kind is Kind.FLOATING for row in rows)


def _example(chain: _Chain, witness: float) -> tuple[str, str, str]:
    """Return a value of the source, the result of the chain, and the result of the direct cast."""
    source, middle, last = chain.types
    row = element_type(source)
    telling = [x for x in _TELLING if row.kind is Kind.FLOATING or row.min <= x <= row.max]
    x = cast(np.array([*telling, witness]), source) if row.kind is Kind.FLOATING else _whole([*telling, witness], row)
    first, second = ({"saturate": c.saturate, "round_mode": c.round_mode} for c in (chain.first, chain.last))
    between = cast(x, middle, opset=chain.opset, **first)  # type: ignore[arg-type]
    through, at_once = (cast(array, last, opset=chain.opset, **second) for array in (between, x))  # type: ignore[arg-type]
    both_nan = (through != through) & (at_once != at_once)
    index = int(np.asarray((through != at_once) & ~both_nan).argmax())
    return str(x[index]), str(through[index]), str(at_once[index])


def _whole(values: list[float], row: ElementType) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    return np.array([int(value) for value in values], row.dtype.numpy())


def _saturates(value: onnx_ir.Value, to: DataType, inference: Inference) -> str:
    """Return how a bound before the cast to `to` saturates so that NaN may be lost; empty if it does not."""
    node, row, source = value.producer(), element_type(to), inference.type_of(value)
    if node is None or node.domain not in DEFAULT_DOMAINS or node.op_type not in ("Clip", "Min", "Max"):
        return ""
    if source is None or not _floats(row, element_type(source)) or not row.has_nan or embeds(source, to):
        return ""
    tensors = [constant_tensor(operand) for operand in node.inputs]
    bounds = [abs(float(tensor.numpy().item())) for tensor in tensors if tensor is not None and tensor.size == 1]
    bounds += [abs(a.as_float()) for name in ("min", "max") if (a := node.attributes.get(name)) is not None]
    largest = float(row.max)
    if not any(largest / _NEAR <= bound <= largest * _NEAR for bound in bounds):
        return ""
    return f"{node.op_type} saturates before a cast to {type_name(to)}, and some runtimes turn NaN into a bound there"
