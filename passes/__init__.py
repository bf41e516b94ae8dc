"""The passes that make types right on any target; each is an onnx_ir pass."""

from castsmith.passes.fold_constants import FoldConstants
from castsmith.passes.insert_promote_types import InsertPromoteTypes
from castsmith.passes.place_casts import PlaceCasts
from castsmith.passes.resolve_promote_types import ResolvePromoteTypes
from castsmith.passes.simplify_casts import SimplifyCasts

__all__ = ["FoldConstants", "InsertPromoteTypes", "PlaceCasts", "ResolvePromoteTypes", "SimplifyCasts"]
