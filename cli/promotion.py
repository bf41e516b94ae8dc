"""The rules of promotion that the options of a command choose."""

from __future__ import annotations

import argparse
from dataclasses import replace

from castsmith.numerics.errors import OptionError, PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import parse_type


def promotion_rules(arguments: argparse.Namespace) -> PromotionRules:
    """Return the rules of the options of `add_promotion`: those of the preset, overridden by the other options."""
    try:
        rules = PromotionRules.preset(arguments.promotion or "openvino")
    except PromotionError as error:
        raise OptionError(str(error)) from None
    if arguments.u64_integer_promotion_target is not None:
        rules = replace(rules, u64_integer_promotion_target=parse_type(arguments.u64_integer_promotion_target))
    return replace(
        rules,
        promote_unsafe=rules.promote_unsafe or arguments.promote_unsafe,
        pytorch_scalar_promotion=rules.pytorch_scalar_promotion or arguments.pytorch_scalar_promotion,
    )
