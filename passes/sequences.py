"""The pass managers of onnx_ir, with results that carry the records of the passes of Castsmith inside."""

from __future__ import annotations

import onnx_ir
from onnx_ir.passes import PassResult

from castsmith.ir.passing import recording
from castsmith.ir.records import RewriteResult


class Sequential(onnx_ir.passes.Sequential):
    """onnx_ir's Sequential: passes of any origin, one after another. An error in one is onnx_ir's PassError."""

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        with recording() as records:
            result = super().call(model)
        return RewriteResult(result.model, result.modified, records)

    def __call__(self, model_or_result: onnx_ir.Model | PassResult, /) -> RewriteResult:
        return _carrying(super().__call__(model_or_result))


class PassManager(onnx_ir.passes.PassManager):
    """onnx_ir's PassManager: passes of any origin, `steps` times or until nothing changes."""

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        with recording() as records:
            result = super().call(model)
        return RewriteResult(result.model, result.modified, records)

    def __call__(self, model_or_result: onnx_ir.Model | PassResult, /) -> RewriteResult:
        return _carrying(super().__call__(model_or_result))


def _carrying(result: PassResult) -> RewriteResult:
    assert isinstance(result, RewriteResult)
    return result
