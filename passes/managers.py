"""The pass managers of onnx_ir, with results that carry the records of the passes inside.

Passes of Castsmith record their changes. The changes of other passes are recorded by comparing the model before and
after each of them, also if a foreign pass runs passes of Castsmith among its own changes.
"""

from __future__ import annotations

from typing import cast

import onnx_ir
from onnx_ir.passes import PassBase, PassResult

from castsmith.ir.errors import OrderError
from castsmith.ir.records import Records, RewriteResult
from castsmith.ir.validation import require_order
from castsmith.ir.walks import all_nodes
from castsmith.passes.core.rewrite_pass import Recorder, RewritePass, announce, listening, recording, tell


class Sequential(onnx_ir.passes.Sequential):
    """onnx_ir's Sequential: passes of any origin, one after another. An error in one is onnx_ir's PassError."""

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        return _recorded(onnx_ir.passes.Sequential(*map(_telling, self.passes)), model)

    def __call__(self, model_or_result: onnx_ir.Model | PassResult, /) -> RewriteResult:
        return cast("RewriteResult", super().__call__(model_or_result))


class PassManager(onnx_ir.passes.PassManager):
    """onnx_ir's PassManager: passes of any origin, `steps` times or until nothing changes."""

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        passes = [_telling(rewrite_pass) for rewrite_pass in self.passes]
        return _recorded(onnx_ir.passes.PassManager(passes, self.steps, self.early_stop), model)

    def __call__(self, model_or_result: onnx_ir.Model | PassResult, /) -> RewriteResult:
        return cast("RewriteResult", super().__call__(model_or_result))


def run_recorded(rewrite_pass: PassBase, model: onnx_ir.Model, name: str) -> RewriteResult:
    """Run a foreign pass, or a manager, and record all of its changes.

    Args:
        rewrite_pass: The pass.
        model: The model to run it on.
        name: The name of the pass in records made by comparison.
    """
    return _recorded(_telling(rewrite_pass, name), model)


def _recorded(telling: PassBase, model: onnx_ir.Model) -> RewriteResult:
    with recording() as records:
        result = telling(model)
    return RewriteResult(result.model, result.modified, records)


def _telling(rewrite_pass: PassBase, name: str = "") -> PassBase:
    """Return the pass, or an equivalent one that records its changes."""
    kind = type(rewrite_pass)
    if isinstance(rewrite_pass, RewritePass) or kind in (Sequential, PassManager):
        return rewrite_pass
    if isinstance(rewrite_pass, onnx_ir.passes.PassManager) and kind is onnx_ir.passes.PassManager:
        return PassManager([*rewrite_pass.passes], rewrite_pass.steps, rewrite_pass.early_stop)
    if isinstance(rewrite_pass, onnx_ir.passes.Sequential) and kind is onnx_ir.passes.Sequential:
        return Sequential(*rewrite_pass.passes)
    return _Compared(rewrite_pass, name or kind.__name__)


class _Compared(PassBase):
    """A foreign pass whose changes are recorded by comparing the model before and after it."""

    def __init__(self, inner: PassBase, name: str) -> None:
        self.inner, self.name = inner, name

    @property
    def in_place(self) -> bool:
        return self.inner.in_place

    @property
    def changes_input(self) -> bool:
        return self.inner.changes_input

    def __str__(self) -> str:
        return str(self.inner)

    def call(self, model: onnx_ir.Model) -> PassResult:
        announce(model)
        comparison = _Comparison(model, self.name)
        with listening(comparison):
            result = self.inner(model)
        if isinstance(result, RewriteResult) and not comparison.heard:
            tell(result.model, result.records)
            if result.records.rewrites:
                return PassResult(result.model, True)
        comparison.begins(result.model)
        return PassResult(result.model, result.modified or comparison.changed)


class _Comparison(Recorder):
    """Compares the model at the start of each pass of Castsmith with its state at the end of the previous one.

    Attributes:
        changed: True if a recorded change was made.
        heard: True if a pass of Castsmith ran.
    """

    def __init__(self, model: onnx_ir.Model, name: str) -> None:
        super().__init__()
        self._last, self._name = _copied(model), name
        self.changed = self.heard = False

    def begins(self, model: onnx_ir.Model) -> None:
        """Record the changes since the last pass of Castsmith ended."""
        from castsmith.verification.diff.models import rewrites_between

        rewrites = [] if self._last is None else rewrites_between(self._last, model, self._name)
        if rewrites:
            self.changed = True
            tell(model, Records(rewrites))

    def ended(self, model: onnx_ir.Model, records: Records) -> None:
        """Remember the model as the pass left it."""
        self.heard, self.changed, self._last = True, self.changed or bool(records.rewrites), _copied(model)


def _copied(model: onnx_ir.Model) -> onnx_ir.Model | None:
    """Return a copy with the same tensors; None if nodes are out of order, which onnx_ir cannot copy."""
    try:
        require_order(all_nodes(model))
    except OrderError:
        return None
    return model.clone()
