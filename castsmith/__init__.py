"""Castsmith makes the element types of an ONNX model right for where it will run: exact, explained, repaired.

Everything here is re-exported from the packages below and imported when it is first used, so that starting is cheap.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as of typing, which is not imported: see __main__.py
if TYPE_CHECKING:
    from castsmith.ir.errors import ModelError, VerificationError
    from castsmith.ir.loading import load
    from castsmith.ir.passing import recording
    from castsmith.ir.records import Diagnostic, Effect, Records, Refusal, Rewrite, RewriteResult, Severity, Site
    from castsmith.ir.saving import save
    from castsmith.ir.targets import Target, TargetError, load_target
    from castsmith.ir.verify import Verdict, verify
    from castsmith.lowering.errors import OptionError
    from castsmith.lowering.pipeline import Result, optimize
    from castsmith.numerics.cast import cast
    from castsmith.numerics.definedness import Definedness
    from castsmith.numerics.errors import (
        ArgumentTypeError,
        CastError,
        CastsmithError,
        ElementTypeError,
        PromotionError,
        TruncError,
    )
    from castsmith.numerics.exactness import chain_collapses, is_exact
    from castsmith.numerics.extensions import ExtensionError
    from castsmith.numerics.promotion import PromotionRules, common_type, promote_types
    from castsmith.numerics.status import cast_status
    from castsmith.numerics.trunc import trunc

__version__ = "0.1.0"

_HOMES = {
    "castsmith.ir.errors": ("ModelError", "VerificationError"),
    "castsmith.ir.loading": ("load",),
    "castsmith.ir.passing": ("recording",),
    "castsmith.ir.records": (
        *("Diagnostic", "Effect", "Records", "Refusal", "Rewrite", "RewriteResult", "Severity", "Site"),
    ),
    "castsmith.ir.saving": ("save",),
    "castsmith.ir.verify": ("Verdict", "verify"),
    "castsmith.lowering.errors": ("OptionError",),
    "castsmith.lowering.pipeline": ("Result", "optimize"),
    "castsmith.ir.targets": ("Target", "TargetError", "load_target"),
    "castsmith.numerics.cast": ("cast",),
    "castsmith.numerics.definedness": ("Definedness",),
    "castsmith.numerics.errors": (
        *("ArgumentTypeError", "CastError", "CastsmithError", "ElementTypeError", "PromotionError", "TruncError"),
    ),
    "castsmith.numerics.extensions": ("ExtensionError",),
    "castsmith.numerics.exactness": ("chain_collapses", "is_exact"),
    "castsmith.numerics.promotion": ("PromotionRules", "common_type", "promote_types"),
    "castsmith.numerics.status": ("cast_status",),
    "castsmith.numerics.trunc": ("trunc",),
}

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ArgumentTypeError",
    "CastError",
    "CastsmithError",
    "Definedness",
    "Diagnostic",
    "Effect",
    "ElementTypeError",
    "ExtensionError",
    "ModelError",
    "OptionError",
    "PromotionError",
    "PromotionRules",
    "Records",
    "Refusal",
    "Result",
    "Rewrite",
    "RewriteResult",
    "Severity",
    "Site",
    "Target",
    "TargetError",
    "TruncError",
    "Verdict",
    "VerificationError",
    "cast",
    "cast_status",
    "chain_collapses",
    "common_type",
    "is_exact",
    "load",
    "load_target",
    "optimize",
    "promote_types",
    "recording",
    "save",
    "trunc",
    "verify",
]


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name in ("cli", "ir", "lowering", "numerics", "passes"):
        return import_module(f"castsmith.{name}")
    raise AttributeError(f"module 'castsmith' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
