"""What a pass of Castsmith is: an onnx_ir pass whose result carries its records, wherever it runs.

The pass managers of onnx_ir return a plain PassResult, which has no room for the records of the passes inside;
`recording` hears them all the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import onnx_ir
from onnx_ir.passes import InPlacePass, PassResult

from castsmith.ir.naming import settle_names
from castsmith.ir.opsets import require_known_opset
from castsmith.ir.records import Records, RewriteResult

_LISTENERS: ContextVar[tuple[Records, ...]] = ContextVar("castsmith_listeners", default=())


class RewritePass(InPlacePass):
    """A pass that changes the model it is given and returns it with the records of what it did.

    Raises OpsetError for a model of an opset that nobody here knows: its operators may mean anything.
    """

    def requires(self, model: onnx_ir.Model) -> None:
        require_known_opset(model)

    @abstractmethod
    def call(self, model: onnx_ir.Model) -> RewriteResult: ...

    def __call__(self, model_or_result: onnx_ir.Model | PassResult, /) -> RewriteResult:
        result = super().__call__(model_or_result)
        assert isinstance(result, RewriteResult)
        if result.modified:
            settle_names(result.model)
        for records in _LISTENERS.get():
            records.extend(result.records)
        return result


@contextmanager
def recording() -> Generator[Records]:
    """Collect the records of every pass of Castsmith that the block runs, in whatever pass manager it does.

    One recording may be inside another; each belongs to the thread or task that opened it.
    """
    records = Records()
    token = _LISTENERS.set((*_LISTENERS.get(), records))
    try:
        yield records
    finally:
        _LISTENERS.reset(token)
