"""Castsmith makes the element types of an ONNX model right for where it will run: exact, explained, repaired.

Everything here is re-exported from the packages below and imported when it is first used, so that starting is cheap.
"""

from __future__ import annotations

from castsmith.deferred import SELDOM_USED, defer
from castsmith.lazy import door

TYPE_CHECKING = False  # as of typing, which is not imported: see __main__.py
if TYPE_CHECKING:
    from castsmith.ir.bounds import Bound, bounds
    from castsmith.ir.diff import Change, ModelDiff, diff
    from castsmith.ir.errors import ModelError, VerificationError
    from castsmith.ir.io import load, save
    from castsmith.ir.options import Options
    from castsmith.ir.records import Diagnostic, Effect, Records, Refusal, Rewrite, RewriteResult, Severity, Site
    from castsmith.ir.rewrite_pass import recording
    from castsmith.ir.targets import Target, TargetError, load_target
    from castsmith.ir.verify import Verdict, verify
    from castsmith.lowering.check import check
    from castsmith.lowering.conversion import convert
    from castsmith.lowering.pipeline import optimize
    from castsmith.lowering.results import Accuracy, ConvertResult, OutputError, Result
    from castsmith.numerics.cast import cast
    from castsmith.numerics.errors import (
        ArgumentTypeError,
        CastError,
        CastsmithError,
        ElementTypeError,
        OptionError,
        PromotionError,
        TruncError,
    )
    from castsmith.numerics.exactness import chain_collapses, is_exact
    from castsmith.numerics.extensions import ExtensionError
    from castsmith.numerics.promotion import PromotionRules, common_type, promote_types
    from castsmith.numerics.status import Definedness, cast_status
    from castsmith.numerics.trunc import trunc

__version__ = "0.1.0"

__all__ = [
    "Accuracy",
    "ArgumentTypeError",
    "Bound",
    "CastError",
    "CastsmithError",
    "Change",
    "ConvertResult",
    "Definedness",
    "Diagnostic",
    "Effect",
    "ElementTypeError",
    "ExtensionError",
    "ModelDiff",
    "ModelError",
    "OptionError",
    "Options",
    "OutputError",
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
    "bounds",
    "cast",
    "cast_status",
    "chain_collapses",
    "check",
    "common_type",
    "convert",
    "diff",
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

_HOMES = {
    "castsmith.ir.bounds": ("Bound", "bounds"),
    "castsmith.ir.diff": ("Change", "ModelDiff", "diff"),
    "castsmith.ir.errors": ("ModelError", "VerificationError"),
    "castsmith.ir.io": ("load", "save"),
    "castsmith.ir.options": ("Options",),
    "castsmith.ir.records": (
        "Diagnostic",
        "Effect",
        "Records",
        "Refusal",
        "Rewrite",
        "RewriteResult",
        "Severity",
        "Site",
    ),
    "castsmith.ir.rewrite_pass": ("recording",),
    "castsmith.ir.targets": ("Target", "TargetError", "load_target"),
    "castsmith.ir.verify": ("Verdict", "verify"),
    "castsmith.lowering.check": ("check",),
    "castsmith.lowering.conversion": ("convert",),
    "castsmith.lowering.pipeline": ("optimize",),
    "castsmith.lowering.results": ("Accuracy", "ConvertResult", "OutputError", "Result"),
    "castsmith.numerics.cast": ("cast",),
    "castsmith.numerics.errors": (
        "ArgumentTypeError",
        "CastError",
        "CastsmithError",
        "ElementTypeError",
        "OptionError",
        "PromotionError",
        "TruncError",
    ),
    "castsmith.numerics.exactness": ("chain_collapses", "is_exact"),
    "castsmith.numerics.extensions": ("ExtensionError",),
    "castsmith.numerics.promotion": ("PromotionRules", "common_type", "promote_types"),
    "castsmith.numerics.status": ("Definedness", "cast_status"),
    "castsmith.numerics.trunc": ("trunc",),
}

if not TYPE_CHECKING:
    defer(SELDOM_USED)
    __getattr__, __dir__ = door(__name__, _HOMES)
