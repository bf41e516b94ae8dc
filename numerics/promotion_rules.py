"""What decides a promotion, as one value: the attributes of ConvertPromoteTypes, and whose table of types is used."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_ir import DataType

from castsmith.numerics.errors import PromotionError

Rank = int | None
"""The number of dimensions; None where it is unknown."""


@dataclass(frozen=True)
class PromotionRules:
    """The attributes of ConvertPromoteTypes with its defaults, and two of Castsmith's own.

    library: whose common types: `openvino` (derived from the types), or a table of `promotion_libraries`. A library's
        own rule is all unsafe; without `promote_unsafe` the steps that ConvertPromoteTypes calls unsafe are refused.
    weak_scalars: a rank-0 constant is a number as the source text had it; where the common type of the other operands
        holds it exactly, it does not widen them.
    """

    promote_unsafe: bool = False
    pytorch_scalar_promotion: bool = False
    u64_integer_promotion_target: DataType = DataType.FLOAT
    library: str = "openvino"
    weak_scalars: bool = False

    @classmethod
    def preset(cls, name: str) -> PromotionRules:
        """What users of a library mean. Raises PromotionError for a name that is not in `PRESETS`."""
        if name not in PRESETS:
            raise PromotionError(f"{name!r} is no preset of promotion; the presets are {', '.join(PRESETS)}.")
        return PRESETS[name]


PRESETS: dict[str, PromotionRules] = {
    "openvino": PromotionRules(),
    "torch": PromotionRules(True, pytorch_scalar_promotion=True, library="torch", weak_scalars=True),
    "numpy": PromotionRules(True, library="numpy"),
    "jax": PromotionRules(True, library="jax"),
    "tensorflow": PromotionRules(True, library="tensorflow"),
}
"""`tensorflow` is the mode "all" of tf.experimental.numpy; with promote_unsafe=False it is its mode "safe"."""
