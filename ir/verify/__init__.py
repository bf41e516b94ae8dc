"""Execution of two models, compared bit for bit: `verify(a, b)` gives a `Verdict`, which is true if they are equal.

    run            the comparison: interfaces, sets of inputs one after the other, and what may be concluded
    verdict        what was found: equal, different or inconclusive, with what was compared and what was not
    compare        interfaces as declared, and arrays bit by bit
    inputs, reach  the inputs: awkward values of each type, in shapes and ranges on which the models run
    evaluate       a model run one operator at a time; control_flow, conversions, promotion are its parts
    coverage       what the inputs reached of a model
    engines        an operator run by ONNX Runtime, OpenVINO or the reference, in a process of its own (worker)
    whole          a model run whole in a runtime, to tell what the runtime changes
    limits         the time, turns and elements that a comparison may take

Conversions are computed by `castsmith.numerics`, every other operator by an engine, alone: what is compared is what
the models mean, not what a runtime's optimizer makes of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.verify.engines import ENGINES, OURSELVES, TITLES, EngineError
    from castsmith.ir.verify.run import require_no_difference, require_same, verify
    from castsmith.ir.verify.verdict import Mismatch, Verdict

__all__ = [
    "ENGINES",
    "OURSELVES",
    "TITLES",
    "EngineError",
    "EngineName",
    "Mismatch",
    "Verdict",
    "require_no_difference",
    "require_same",
    "verify",
]

EngineName = Literal["onnxruntime", "openvino", "reference"]
"""What runs all operators but conversions."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "engines": ("ENGINES", "EngineError", "OURSELVES", "TITLES"),
            "run": ("require_no_difference", "require_same", "verify"),
            "verdict": ("Mismatch", "Verdict"),
        },
    )
