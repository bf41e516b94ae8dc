"""Certificates: what each pass made of the model, for `castsmith.verification.checker` to check.

A certificate is JSON. Its steps lead from the input model to the output model: each has the edit of the model, its
nodes and the hashes of its constants, and the rewrites that made it. It has the constants that neither model has.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx.numpy_helper
import onnx_ir
from onnx import TensorProto

from castsmith.ir.errors import ModelError
from castsmith.ir.io.saving import light_proto, whole_proto
from castsmith.ir.records import Rewrite
from castsmith.verification import checker


@dataclass
class Certifier:
    """Collects the steps of one run. Large weights are hashed once, and never copied.

    Attributes:
        original: The model before all passes, perhaps without the elements of the weights of `model`.
        model: The same as it was loaded.
    """

    original: onnx.ModelProto
    model: onnx_ir.Model
    _constants: dict[str, checker.Array] = field(init=False, default_factory=dict[str, "checker.Array"])
    _steps: list[dict[str, Any]] = field(init=False, default_factory=list[dict[str, Any]])
    _state: checker.State = field(init=False)
    _first: checker.State = field(init=False)

    _texts: dict[onnx_ir.TensorProtocol, str] = field(init=False, default_factory=dict[onnx_ir.TensorProtocol, str])
    """The texts of large weights."""

    def __post_init__(self) -> None:
        _, weights = light_proto(self.model)
        elsewhere = {
            tensor.name for tensor in self.original.graph.initializer if tensor.data_location == TensorProto.EXTERNAL
        }
        texts = {name: self._text(weights[name]) for name in elsewhere & weights.keys()}
        self._state = self._first = checker.state_of(self.original, self._constants, texts)
        self.step("read", self.model)

    def _text(self, tensor: onnx_ir.TensorProtocol) -> str:
        if tensor not in self._texts:
            content = checker.digest(tensor.numpy())
            self._constants[content] = tensor.numpy()
            self._texts[tensor] = f"{int(tensor.dtype)} {content}"
        return self._texts[tensor]

    def step(self, name: str, model: onnx_ir.Model, rewrites: Iterable[Rewrite] = ()) -> None:
        """Note what a pass made of the model."""
        proto, weights = light_proto(model)
        texts = {name: self._text(tensor) for name, tensor in weights.items()}
        state = checker.state_of(proto, self._constants, texts)
        edit = checker.edit_between(self._state, state)
        records = [
            {
                "rule": rewrite.rule,
                "place": str(rewrite.site),
                "removed": rewrite.before,
                "made": rewrite.after,
                "reason": rewrite.reason,
                "effect": rewrite.effect.value,
            }
            for rewrite in rewrites
        ]
        if edit["drop"] or edit["put"]:
            self._steps.append({"pass": name, "rewrites": records, "edit": edit})
        self._state = state

    def certificate(self, result: onnx_ir.Model) -> dict[str, Any]:
        """Return the certificate of the run that led to the result."""
        self.step("save", result)
        puts = [step["edit"]["put"] for step in self._steps]
        between = set[str]().union(*map(_hashes, puts)) - _hashes(self._first) - _hashes(self._state)
        certificate = {
            "format": checker.FORMAT,
            "constants": {content: _data(self._constants[content]) for content in sorted(between)},
            "steps": self._steps,
        }
        return {**certificate, "sha256": checker.sealed(certificate)}


def certifier_of(model: onnx_ir.Model, path: str | os.PathLike[str] | None) -> Certifier:
    """Return what notes the steps from the file of the model, or from the model itself.

    Raises:
        ModelError: The model has what certificates do not support.
    """
    try:
        return Certifier(whole_proto(model) if path is None else onnx.load(path, load_external_data=False), model)
    except checker.RefusedError as error:
        raise ModelError(f"{path or 'the model'}: there is no certificate of it: {error}.") from None


def _hashes(texts: checker.State) -> set[str]:
    return {text.rpartition(" ")[2] for key, text in texts.items() if key.startswith("constant ")}


def _data(array: checker.Array) -> str:
    return base64.b64encode(onnx.numpy_helper.from_array(array).SerializeToString()).decode()
