"""The passes that fix types for any target; each is an onnx_ir pass.

    promote      `InsertPromoteTypes`, `ResolvePromoteTypes`: operands that disagree
    shapes       `FoldShapes`: arithmetic on shapes
    fold         `FoldConstants`: casts and quantization of constants
    simplify     `SimplifyCasts`: casts that change nothing
    place        `PlaceCasts`: casts moved to where they cost least
    precision    `ConvertPrecision`: a model in another precision

`managers` has `Sequential` and `PassManager`, those of onnx_ir with the records of the passes in their results; derive
your own passes from `RewritePass` to have their records included.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
