"""Errors about models."""

from __future__ import annotations

from onnx_ir.passes import PreconditionError

from castsmith.numerics.errors import CastsmithError


class ModelError(CastsmithError):
    """A model that cannot be read, is malformed, or that a pass cannot repair."""


class OrderError(ModelError, PreconditionError):
    """A node that precedes one whose result it uses."""


class OpsetError(ModelError, PreconditionError):
    """A model of an unsupported opset."""


class VerificationError(ModelError):
    """A pass that changed the results of the model."""
