"""Proof that two models compute the same for all inputs: `prove(a, b)` names the proven outputs with reasons.

    proof        `prove`: both models read as terms, by the rules of `castsmith.verification.checker`
    functions    terms as functions of one element of another term, which serve to find inputs

Two outputs that are one term are equal for all inputs; two terms imply nothing. The rules share nothing with the
passes, so that they can contradict them; what they assume is what a certificate assumes.
"""
