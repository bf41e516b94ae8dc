"""fold-constants: Cast, CastLike, ConvertPromoteTypes and QONNX Trunc of constants become constants.

Exact: the value is computed by the numeric core as the schema of the model's opset says. Refused: a cast of which any
element is not DEFINED by the schema (with `fold_disputed`: neither DEFINED nor DISPUTED), so that what a runtime gives
there stays its own; the first such element is named. Refused too: a constant that would make the file grow by more
than `max_growth` bytes, as a float8 weight decoded to float does.

    float[3] w = {1, 2.5, -3}
    y = Cast <to = float8e4m3fn> (w)
becomes
    float8e4m3fn[3] y = {1, 2.5, -3}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.casts import CastNode, read_cast
from castsmith.ir.constants import constant_tensor, new_constant
from castsmith.ir.inference import Inference, infer_element_types
from castsmith.ir.naming import Namer
from castsmith.ir.promote_node import is_convert_promote_types
from castsmith.ir.qonnx import is_trunc, read_trunc, trunc_operands
from castsmith.ir.records import Diagnostic, Refusal, RewriteResult, Severity
from castsmith.ir.rewriting import Replacement, run_rules
from castsmith.ir.schemas import opset_of
from castsmith.ir.scopes import imports_by_scope
from castsmith.ir.text import site_of
from castsmith.numerics.cast import cast
from castsmith.numerics.definedness import Definedness
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.status import status_reason
from castsmith.numerics.trunc import trunc
from castsmith.numerics.types import type_name

NAME = "fold-constants"

_UNDEFINED = "fold-undefined"
_BYTES_OF_TEXT = 16

_PLAIN_CAST = CastNode(None, saturate=True, round_mode="up")


@dataclass(frozen=True)
class FoldConstants(onnx_ir.passes.InPlacePass):
    """Fold conversions of constants.

    max_growth: bytes by which folding one node may make the file grow.
    fold_disputed: fold elements on which runtimes disagree as the schema's own table says.
    """

    max_growth: int = 4096
    fold_disputed: bool = False

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
        imports = imports_by_scope(model)

        def rule(node: onnx_ir.Node) -> Replacement | Refusal | None:
            return None if node.graph is None else self.fold(node, inference, imports[node.graph])

        result = run_rules(model, NAME, Namer(model), rule)
        result.records.diagnostics += [_diagnostic(r) for r in result.records.refusals if r.rule == _UNDEFINED]
        return result

    def fold(
        self, node: onnx_ir.Node, inference: Inference, imports: Mapping[str, int]
    ) -> Replacement | Refusal | None:
        """What to put in place of one node, the types of whose operands `inference` knows."""
        if is_trunc(node):
            return fold_trunc(node, imports)
        opset = opset_of(imports, "") or 1
        like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
        meaning = read_cast(node, like)
        if meaning is not None and meaning.to is not None:
            return self._fold_casts(node, (meaning.to,), meaning, opset)
        if is_convert_promote_types(node):
            common = inference.type_of(node.outputs[0])
            return None if common is None else self._fold_casts(node, (common, common), _PLAIN_CAST, opset)
        return None

    def _fold_casts(
        self, node: onnx_ir.Node, targets: tuple[DataType, ...], meaning: CastNode, opset: int
    ) -> Replacement | Refusal | None:
        """Fold the casts of the first inputs to `targets`, all or none."""
        operands = list(node.inputs[: len(targets)])
        tensors = [tensor for value in operands if (tensor := constant_tensor(value)) is not None]
        if len(tensors) < len(targets) or all(t.dtype == to for t, to in zip(tensors, targets, strict=True)):
            return None
        growth = sum(_growth(value, to) for value, to in zip(operands, targets, strict=True))
        if growth > self.max_growth:
            reason = f"the file would grow by {growth:.0f} bytes, and max_growth is {self.max_growth}"
            return Refusal(NAME, "fold-growth", site_of(node), reason)
        arrays: list[NDArray[Any]] = []
        for value, tensor, to in zip(operands, tensors, targets, strict=True):
            array = self._convert(node, value, tensor.numpy(), to, meaning, opset)
            if isinstance(array, Refusal):
                return array
            arrays.append(array)
        types = " and ".join(f"{type_name(t.dtype)} to {type_name(to)}" for t, to in zip(tensors, targets, strict=True))
        return _constants(node, arrays, targets, f"{types} of a constant, every element as opset {opset} defines it")

    def _convert(
        self,
        node: onnx_ir.Node,
        value: onnx_ir.Value | None,
        array: NDArray[Any],
        to: DataType,
        meaning: CastNode,
        opset: int,
    ) -> NDArray[Any] | Refusal:
        tolerated = Definedness.DISPUTED if self.fold_disputed else Definedness.DEFINED
        saturate, round_mode = meaning.saturate, meaning.round_mode
        try:
            finding = status_reason(array, to, saturate=saturate, round_mode=round_mode, opset=opset)
            if finding is None or finding.standing <= tolerated:
                return cast(array, to, saturate=saturate, round_mode=round_mode, opset=opset)
        except (ElementTypeError, CastError) as error:
            return Refusal(NAME, "fold-invalid", site_of(node), str(error))
        where = f"element {list(finding.index)} of {value.name if value else ''}"
        reason = f"{where} is {finding.standing.name}: {finding.reason}"
        return Refusal(NAME, _UNDEFINED, site_of(node), reason, finding.value)


def fold_trunc(node: onnx_ir.Node, imports: Mapping[str, int]) -> Replacement | None:
    """The constant that a Trunc of constants gives."""
    meaning = read_trunc(node, imports)
    operands = trunc_operands(node, meaning.version)
    arrays = {
        name: tensor.numpy() for name, value in operands.items() if (tensor := constant_tensor(value)) is not None
    }
    if len(arrays) < len(operands):
        return None
    mode, version = meaning.rounding_mode, meaning.version
    result = trunc(**arrays, rounding_mode=mode, signed=meaning.signed, narrow=meaning.narrow, version=version)
    # QONNX declares the output float32, whatever numpy makes of its parameters.
    dtype = node.outputs[0].dtype or DataType.FLOAT
    return _constants(node, [result.astype(dtype.numpy())], (dtype,), f"QONNX Trunc version {version} of constants")


def _growth(value: onnx_ir.Value | None, to: DataType) -> float:
    """Bytes that the file gains by holding the constant in the type `to`, and loses where nothing else needs it."""
    tensor = constant_tensor(value)
    assert tensor is not None
    assert value is not None
    stays = value.is_graph_output() or len(value.uses()) > 1
    itemsize = _BYTES_OF_TEXT if to == DataType.STRING else to.itemsize
    return tensor.size * itemsize - (0 if stays else tensor.nbytes)


def _constants(node: onnx_ir.Node, arrays: list[NDArray[Any]], types: tuple[DataType, ...], reason: str) -> Replacement:
    values = tuple(
        new_constant(output.name or "folded", _tensor(array, dtype))
        for output, array, dtype in zip(node.outputs, arrays, types, strict=True)
    )
    return Replacement("fold-constant", reason, constants=values, outputs=values)


def _tensor(array: NDArray[Any], dtype: DataType) -> onnx_ir.TensorProtocol:
    if dtype == DataType.STRING:
        texts = [text.encode() for text in array.ravel().tolist()]
        return onnx_ir.StringTensor(texts, shape=onnx_ir.Shape(array.shape))
    return onnx_ir.tensor(array, dtype=dtype)


def _diagnostic(refusal: Refusal) -> Diagnostic:
    message = f"the ONNX standard does not fix what this cast of a constant gives, so it stays: {refusal.reason}"
    way_out = "change the constant, or let the runtime decide"
    return Diagnostic("undefined-constant-cast", Severity.WARNING, refusal.site, message, way_out)
