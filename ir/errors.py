"""Errors about models."""

from __future__ import annotations

from onnx_ir.passes import PreconditionError

from castsmith.numerics.errors import CastsmithError


class ModelError(CastsmithError):
    """A model that cannot be read, is not what it says it is, or that a pass cannot make right."""


class OrderError(ModelError, PreconditionError):
    """A node that stands ahead of one whose result it uses."""


class OpsetError(ModelError, PreconditionError):
    """A model of an opset that is newer than those known here."""


class VerificationError(ModelError):
    """A pass that changed what the model gives."""
