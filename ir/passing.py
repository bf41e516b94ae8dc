"""What a pass of Castsmith is: an onnx_ir pass whose result carries its records, wherever it runs.

The pass managers of onnx_ir return a plain PassResult, which has no room for the records of the passes inside;
`recording` hears them all the same.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import onnx_ir
from onnx_ir.passes import InPlacePass, PassResult

from castsmith.ir.naming import settle_names
from castsmith.ir.opsets import require_known_opset
from castsmith.ir.records import Records, Rewrite, RewriteResult, Site

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
        before = _header(_model_of(model_or_result))
        result = super().__call__(model_or_result)
        assert isinstance(result, RewriteResult)
        if result.modified:
            settle_names(result.model)
        elif _header(result.model) != before:
            result.records.rewrites.append(_dropped(type(self).__name__, result.model, before))
            result = replace(result, modified=True)
        for records in _LISTENERS.get():
            records.extend(result.records)
        return result


def _model_of(model_or_result: onnx_ir.Model | PassResult) -> onnx_ir.Model:
    return model_or_result.model if isinstance(model_or_result, PassResult) else model_or_result


def _header(model: onnx_ir.Model) -> list[str]:
    """What a model says of itself beside its nodes: a pass may drop of it what no node needs any more."""
    scopes = (model.graph, *model.functions.values())
    imports = [
        f"{scope.name}: {domain or 'ai.onnx'} {v}" for scope in scopes for domain, v in scope.opset_imports.items()
    ]
    functions = [f"function {'.'.join(filter(None, identifier))}" for identifier in model.functions]
    return [f"IR version {model.ir_version}", *functions, *imports]


def _dropped(class_name: str, model: onnx_ir.Model, before: list[str]) -> Rewrite:
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", class_name).lower()
    after = _header(model)
    old, new = (each for each in before if each not in after), (each for each in after if each not in before)
    reason = "no node needs any more what the model declares"
    return Rewrite(name, "drop-unused", Site(model.graph.name or ""), "\n".join(old), "\n".join(new), reason)


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
