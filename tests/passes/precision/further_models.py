"""Further models, each with its conversions: options, old opsets, refusals beside acceptances."""

from __future__ import annotations

FURTHER: dict[str, tuple[tuple[str, ...], str]] = {}
