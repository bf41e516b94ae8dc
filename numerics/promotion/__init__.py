"""The common type of operands that disagree, under named rules.

Call `common_type(types, rules)` or `promote_types(a, b, ...)`; `PromotionRules` holds the settings of
ConvertPromoteTypes and the presets that follow a library (torch, numpy, jax, tensorflow). `scalars` adapts constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.numerics.promotion.common import common_type, promote_types
    from castsmith.numerics.promotion.rules import PRESETS, PromotionRules, as_rules
    from castsmith.numerics.promotion.scalars import common_type_of_constants

__all__ = ["PRESETS", "PromotionRules", "as_rules", "common_type", "common_type_of_constants", "promote_types"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "common": ("common_type", "promote_types"),
            "rules": ("PRESETS", "PromotionRules", "as_rules"),
            "scalars": ("common_type_of_constants",),
        },
    )
