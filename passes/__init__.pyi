from .core.rewrite_pass import RewritePass as RewritePass
from .fold.run import FoldConstants as FoldConstants
from .managers import PassManager as PassManager, Sequential as Sequential
from .place.run import PlaceCasts as PlaceCasts
from .precision.run import ConvertPrecision as ConvertPrecision
from .promote.insert import InsertPromoteTypes as InsertPromoteTypes
from .promote.resolve import ResolvePromoteTypes as ResolvePromoteTypes
from .shapes.run import FoldShapes as FoldShapes
from .simplify.run import SimplifyCasts as SimplifyCasts

__all__: list[str]
