"""The common type of operands that disagree, under named rules.

Call `common_type(types, rules)` or `promote_types(a, b, ...)`; `PromotionRules` holds the settings of
ConvertPromoteTypes and the presets that follow a library (torch, numpy, jax, tensorflow). `scalars` adapts constants.
"""
