"""The public names, imported when they are first used: lazy_loader reads this file."""

from .ir.errors import ModelError as ModelError, VerificationError as VerificationError
from .ir.io.loading import load as load
from .ir.io.saving import save as save
from .ir.records import (
    Diagnostic as Diagnostic,
    Effect as Effect,
    Records as Records,
    Refusal as Refusal,
    Rewrite as Rewrite,
    RewriteResult as RewriteResult,
    Severity as Severity,
    Site as Site,
)
from .lowering.check.run import check as check
from .lowering.conversion import convert as convert
from .lowering.fit.results import FitResult as FitResult, Step as Step, Way as Way
from .lowering.fit.run import fit as fit
from .lowering.pipeline import optimize as optimize
from .lowering.results import (
    Accuracy as Accuracy,
    ConvertResult as ConvertResult,
    OutputError as OutputError,
    Result as Result,
)
from .numerics.cast.convert import cast as cast
from .numerics.errors import (
    ArgumentTypeError as ArgumentTypeError,
    CastError as CastError,
    CastsmithError as CastsmithError,
    ElementTypeError as ElementTypeError,
    OptionError as OptionError,
    PromotionError as PromotionError,
    TruncError as TruncError,
)
from .numerics.exactness import chain_collapses as chain_collapses, is_exact as is_exact
from .numerics.extensions import ExtensionError as ExtensionError
from .numerics.promotion.common import common_type as common_type, promote_types as promote_types
from .numerics.promotion.rules import PromotionRules as PromotionRules
from .numerics.status import Definedness as Definedness, cast_status as cast_status
from .numerics.trunc import trunc as trunc
from .passes.core.convert_options import ConvertOptions as ConvertOptions
from .passes.core.options import Options as Options
from .passes.core.rewrite_pass import recording as recording
from .targets.statements import TargetError as TargetError
from .targets.target import Target as Target, load_target as load_target
from .verification.bounds import Bound as Bound, bounds as bounds
from .verification.diff.interface import Change as Change
from .verification.diff.models import ModelDiff as ModelDiff, diff as diff
from .verification.run import verify as verify
from .verification.verdict import Verdict as Verdict

__version__: str
__all__: list[str]
