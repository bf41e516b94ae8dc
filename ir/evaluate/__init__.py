"""Models run one operator at a time, each alone in an engine: the meaning of the model, without a runtime's rewrites.

Call `Evaluator(model, rules, Engine(name)).run(feeds)`: it gives the outputs as `Content`, each array beside a mask of
the elements that the standard leaves undefined. EngineError says why a model does not run on these inputs.

    evaluator      the walk through graphs, functions and calls
    control_flow   If, Loop, Scan, sequences and optionals
    conversions    casts, quantization and QONNX's Trunc, by `castsmith.numerics`; how undefinedness spreads
    promotion      promotion of operands that disagree, by the schema alone
    engines        an operator run by ONNX Runtime, OpenVINO or the reference, in a process of its own (worker)
    indices        the indices that an operator takes
    coverage       what the inputs reached of the model
    limits         the time, turns and elements that a run may take
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.evaluate.conversions import Content, Mask, Tensor, bits_of
    from castsmith.ir.evaluate.coverage import Coverage, held_nodes
    from castsmith.ir.evaluate.engines import ENGINES, OURSELVES, TITLES, Engine, EngineError, Prepared
    from castsmith.ir.evaluate.evaluator import Evaluator, Path
    from castsmith.ir.evaluate.indices import Bound, RangeError, Shape, depends_on_inputs, index_bounds
    from castsmith.ir.evaluate.limits import Budget, FeedError, LimitError, require_feedable, seconds_for
    from castsmith.ir.evaluate.promotion import dtype_of

__all__ = [
    "ENGINES",
    "OURSELVES",
    "TITLES",
    "Bound",
    "Budget",
    "Content",
    "Coverage",
    "Engine",
    "EngineError",
    "EngineName",
    "Evaluator",
    "FeedError",
    "LimitError",
    "Mask",
    "Path",
    "Prepared",
    "RangeError",
    "Shape",
    "Tensor",
    "bits_of",
    "depends_on_inputs",
    "dtype_of",
    "held_nodes",
    "index_bounds",
    "require_feedable",
    "seconds_for",
]

EngineName = Literal["onnxruntime", "openvino", "reference"]
"""The engines that run all operators except conversions."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "conversions": ("Content", "Mask", "Tensor", "bits_of"),
            "coverage": ("Coverage", "held_nodes"),
            "engines": ("ENGINES", "Engine", "EngineError", "OURSELVES", "Prepared", "TITLES"),
            "evaluator": ("Evaluator", "Path"),
            "indices": ("Bound", "RangeError", "Shape", "depends_on_inputs", "index_bounds"),
            "limits": ("Budget", "FeedError", "LimitError", "require_feedable", "seconds_for"),
            "promotion": ("dtype_of",),
        },
    )
