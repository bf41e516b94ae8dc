"""The passes that make types right on any target; each is an onnx_ir pass.

`Sequential` and `PassManager` are those of onnx_ir with the records of the passes in their results; `RewritePass` is
what passes of your own may derive from so that their records are there too.
"""

from castsmith.ir.passing import RewritePass
from castsmith.passes.fold_constants import FoldConstants
from castsmith.passes.insert_promote_types import InsertPromoteTypes
from castsmith.passes.place_casts import PlaceCasts
from castsmith.passes.resolve_promote_types import ResolvePromoteTypes
from castsmith.passes.sequences import PassManager, Sequential
from castsmith.passes.simplify_casts import SimplifyCasts

__all__ = [
    "FoldConstants",
    "InsertPromoteTypes",
    "PassManager",
    "PlaceCasts",
    "ResolvePromoteTypes",
    "RewritePass",
    "Sequential",
    "SimplifyCasts",
]
