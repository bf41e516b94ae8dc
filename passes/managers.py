"""The pass managers of onnx_ir, with results that carry the records of the passes of Castsmith inside."""

from __future__ import annotations

import onnx_ir
from onnx_ir.passes import PassResult

from castsmith.ir.records import RewriteResult
from castsmith.ir.rewrite_pass import recording


class _Carrying(onnx_ir.passes.Sequential):
    """What both do beside onnx_ir's: PassManager is a Sequential there, too."""

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        with recording() as records:
            result = super().call(model)
        return RewriteResult(result.model, result.modified, records)

    def __call__(self, model_or_result: onnx_ir.Model | PassResult, /) -> RewriteResult:
        result = super().__call__(model_or_result)
        assert isinstance(result, RewriteResult)
        return result


class Sequential(_Carrying):
    """onnx_ir's Sequential: passes of any origin, one after another. An error in one is onnx_ir's PassError."""


class PassManager(_Carrying, onnx_ir.passes.PassManager):
    """onnx_ir's PassManager: passes of any origin, `steps` times or until nothing changes."""
