"""Execution of two models, compared bit for bit: `verify(a, b)` returns a `Verdict`, which is true if they are equal.

    run            the comparison: one set of inputs after the other, and what may be concluded
    inputs         the inputs: given by the caller, or awkward values of each type on which the models run
    compare        interfaces as declared, and arrays bit by bit
    verdict        what was found: equal, different or inconclusive, with what was compared and what was not
    whole          a model run whole in a runtime, to find what the runtime changes

The models are run by `castsmith.verification.evaluate`. What `castsmith.verification.prove` proves needs no inputs.
"""
