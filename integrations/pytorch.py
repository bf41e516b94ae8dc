"""PyTorch: a step between `torch.onnx.export(..., dynamo=True)` and what comes after it.

    program = torch.onnx.export(model, (x,), dynamo=True)
    program = castsmith.integrations.pytorch.convert(program, to="float16")
    program.save("half.onnx")

The functions take an ONNXProgram and return it with another model, so that they can stand wherever one is passed on.
Those of `castsmith` take one too, and return records of what they did.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import onnx_ir

import castsmith


class Program(Protocol):
    """What `torch.onnx.ONNXProgram` has; PyTorch is not imported."""

    model: onnx_ir.Model

    def release(self) -> None:
        """Drop the session that a call of the program started."""


Exported = TypeVar("Exported", bound=Program)


def optimize(program: Exported, **options: Any) -> Exported:
    """Give the program the model that `castsmith.optimize` makes with these options, and return it."""
    return _with_model(program, castsmith.optimize(program.model, in_place=True, **options).model)


def convert(program: Exported, *, to: str, **options: Any) -> Exported:
    """Give the program the model that `castsmith.convert` makes with these options, and return it."""
    return _with_model(program, castsmith.convert(program.model, to=to, in_place=True, **options).model)


def fit(program: Exported, *, target: str, **options: Any) -> Exported:
    """Give the program the model that `castsmith.fit` makes for the target, and return it."""
    return _with_model(program, castsmith.fit(program.model, target=target, **options).model)


def _with_model(program: Exported, model: onnx_ir.Model) -> Exported:
    program.model = model
    program.release()
    return program
