import castsmith.passes.core.rewriting
import castsmith.targets.statements
import castsmith.targets.target

from .casts import LowerCasts as LowerCasts
from .custom import LowerCustom as LowerCustom
from .float8.lower import LowerFloat8 as LowerFloat8
from .narrow.run import NarrowTypes as NarrowTypes
from .node_builder import Lowering as Lowering, NodeBuilder as NodeBuilder
from .operators.run import LowerOperators as LowerOperators
from .opset.version import LegalizeVersion as LegalizeVersion
from .qonnx.quant import LowerQuant as LowerQuant
from .qonnx.trunc import LowerTrunc as LowerTrunc
from .quantized.use import UseVendor as UseVendor
from .rescale.run import Rescale as Rescale
from .widen.run import WidenFloats as WidenFloats

Replacement = castsmith.passes.core.rewriting.Replacement
Target = castsmith.targets.target.Target
TargetError = castsmith.targets.statements.TargetError
load_target = castsmith.targets.target.load_target
target_names = castsmith.targets.target.target_names

__all__: list[str]
