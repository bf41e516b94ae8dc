"""Errors raised on purpose; every one is a CastsmithError, so that a caller can catch them all at once."""

from __future__ import annotations


class CastsmithError(Exception):
    """Base of every error that Castsmith raises on purpose. Its text is one plain sentence for the user."""


class ElementTypeError(CastsmithError):
    """An element type that is unknown, or that the operation asked for does not take."""


class PromotionError(CastsmithError):
    """Two element types have no common type under the rules in force."""


class TruncError(CastsmithError):
    """Parameters that QONNX Trunc does not accept."""
