"""The rules of Castsmith for onnxscript: `onnxscript.rewriter.rewrite(model, castsmith.onnxscript.rules)`.

onnxscript is imported when `rules` is first used (`castsmith.passes.rule_set`).
"""

from __future__ import annotations

from castsmith.lazy import door

TYPE_CHECKING = False  # as in castsmith/__init__.py
if TYPE_CHECKING:
    from castsmith.passes.rule_set import CastRules, rules

__all__ = ["CastRules", "rules"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, {"castsmith.passes.rule_set": ("CastRules", "rules")})
