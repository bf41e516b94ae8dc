"""Execution of two models, compared bit for bit: `verify(a, b)` returns a `Verdict`, which is true if they are equal.

    run            the comparison: one set of inputs after the other, and what may be concluded
    sets           which sets of inputs are tried, on which sizes
    given          inputs that the caller gives: arrays, an .npz, a folder
    inputs, reach  the inputs: awkward values of each type, in shapes and ranges on which the models run
    compare        interfaces as declared, and arrays bit by bit
    verdict        what was found: equal, different or inconclusive, with what was compared and what was not
    whole          a model run whole in a runtime, to find what the runtime changes

The models are run by `castsmith.ir.evaluate`. What `castsmith.ir.prove` proves needs no inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.verify.given import GivenInputs, given_sets, stored_sets
    from castsmith.ir.verify.run import require_no_difference, require_same, verify
    from castsmith.ir.verify.sets import mild_sets
    from castsmith.ir.verify.verdict import Mismatch, Verdict

__all__ = [
    "GivenInputs",
    "Mismatch",
    "Verdict",
    "given_sets",
    "mild_sets",
    "require_no_difference",
    "require_same",
    "stored_sets",
    "verify",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "given": ("GivenInputs", "given_sets", "stored_sets"),
            "run": ("require_no_difference", "require_same", "verify"),
            "sets": ("mild_sets",),
            "verdict": ("Mismatch", "Verdict"),
        },
    )
