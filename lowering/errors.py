"""Errors about what a user asked of the pipeline."""

from __future__ import annotations

from castsmith.numerics.errors import CastsmithError


class OptionError(CastsmithError, ValueError):
    """A pass or an option that is unknown, or does not fit the others."""
