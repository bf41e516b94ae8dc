"""What decides a promotion, as one value: the attributes of ConvertPromoteTypes, and whose table of types is used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import cast

from onnx_ir import DataType

from castsmith.numerics.arguments import flag, text
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.extensions import PROMOTIONS, extension, extensions
from castsmith.numerics.promotion_files import is_promotion_file, promotion_file
from castsmith.numerics.types import parse_type

Rank = int | None
"""The number of dimensions; None where it is unknown."""


@dataclass(frozen=True)
class PromotionRules:
    """The attributes of ConvertPromoteTypes with its defaults, and two of Castsmith's own.

    library: whose common types: `openvino` (derived from the types), a table of `promotion_libraries`, or the path of
        a file with one of your own (`promotion_files`). A library's own rule is all unsafe; without `promote_unsafe`
        the steps that ConvertPromoteTypes calls unsafe are refused.
    weak_scalars: a rank-0 constant is a number as the source text had it; where the common type of the other operands
        holds it exactly, it does not widen them.
    """

    promote_unsafe: bool = False
    pytorch_scalar_promotion: bool = False
    u64_integer_promotion_target: DataType = DataType.FLOAT
    library: str = "openvino"
    weak_scalars: bool = False

    def __post_init__(self) -> None:
        """Check the fields, and take the type by whatever `parse_type` takes."""
        for name in ("promote_unsafe", "pytorch_scalar_promotion", "weak_scalars"):
            object.__setattr__(self, name, flag(name, getattr(self, name), PromotionError))
        object.__setattr__(self, "u64_integer_promotion_target", parse_type(self.u64_integer_promotion_target))
        text("library", self.library)

    @classmethod
    def preset(cls, name: str) -> PromotionRules:
        """What users of a library mean: one of `PRESETS`, a JSON file by its path, or an entry point of other packages
        in the group `castsmith.promotions`. Raises PromotionError for a name that is none of these."""
        if text("the preset", name) in PRESETS:
            return PRESETS[name]
        if is_promotion_file(name):
            return _from_file(name)
        found = extension(PROMOTIONS, name, lambda thing: _fit(thing, name))
        if found is None:
            known = ", ".join((*PRESETS, *(each.name for each in extensions(PROMOTIONS))))
            raise PromotionError(f"{name!r} is no preset of promotion; the presets are {known}.")
        return found


def _from_file(path: str, name: str = "") -> PromotionRules:
    """The preset in a file, whose rows, where it has some, go by the name that a package gives it."""
    found = promotion_file(path)
    if found.above is None and found.library not in PRESETS:
        raise PromotionError(f"{path}: {found.library!r} is none of the libraries {', '.join(PRESETS)}.")
    library = name if name and found.above is not None else found.library
    target = found.types.get("u64_integer_promotion_target", DataType.FLOAT)
    return PromotionRules(u64_integer_promotion_target=target, library=library, **found.flags)


def _fit(thing: object, name: str) -> PromotionRules:
    """A preset as a package gives it: the rules, or the path of a file."""
    if isinstance(thing, str | os.PathLike):
        return _from_file(os.fspath(cast("str | os.PathLike[str]", thing)), name)
    if isinstance(thing, PromotionRules):
        return thing
    raise TypeError("it is neither PromotionRules nor the path of a file")


PRESETS: dict[str, PromotionRules] = {
    "openvino": PromotionRules(),
    "torch": PromotionRules(True, pytorch_scalar_promotion=True, library="torch", weak_scalars=True),
    "numpy": PromotionRules(True, library="numpy"),
    "jax": PromotionRules(True, library="jax"),
    "tensorflow": PromotionRules(True, library="tensorflow"),
}
"""`tensorflow` is the mode "all" of tf.experimental.numpy; with promote_unsafe=False it is its mode "safe"."""
