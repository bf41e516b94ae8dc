"""Element types of all values of a model, also of one whose operands disagree, and intervals of its integers.

Call `infer_element_types(model, rules)`; the `Inference` it returns gives the type of each value and lists the operands
to convert. In a pass, ask the `Session`, which keeps the facts about a model from pass to pass.

    walk            the inference, node by node
    control_flow    joined branches and loop states
    containers      values that are sequences or optional values, declared or not
    disagreement    operands that must share a type and do not
    calls           model-local functions, by the types of their arguments
    session         facts that rewrites keep, and those that they invalidate
    intervals       `Ranges`: values known to be integers between two bounds
    shapes          `inferred_shapes`: what onnx infers, without a copy of the weights
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.inference.calls import Signature, free_identifier, signature_text
    from castsmith.ir.inference.containers import nestings
    from castsmith.ir.inference.disagreement import Disagreement, not_cast
    from castsmith.ir.inference.intervals import Range, Ranges
    from castsmith.ir.inference.session import Session
    from castsmith.ir.inference.shapes import inferred_shapes
    from castsmith.ir.inference.walk import (
        Inference,
        called_with_several_types,
        declared_types,
        infer_element_types,
        known_types,
    )

__all__ = [
    "Disagreement",
    "Inference",
    "Range",
    "Ranges",
    "Session",
    "Signature",
    "called_with_several_types",
    "declared_types",
    "free_identifier",
    "infer_element_types",
    "inferred_shapes",
    "known_types",
    "nestings",
    "not_cast",
    "signature_text",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "calls": ("Signature", "free_identifier", "signature_text"),
            "containers": ("nestings",),
            "disagreement": ("Disagreement", "not_cast"),
            "intervals": ("Range", "Ranges"),
            "session": ("Session",),
            "shapes": ("inferred_shapes",),
            "walk": ("Inference", "called_with_several_types", "declared_types", "infer_element_types", "known_types"),
        },
    )
