"""Constant folding of casts, quantization and moves of their elements, with the exact codec.

Run `FoldConstants`. A node is folded only if the standard fixes every element of the result and the file does not
grow by more than the limit; large weights are computed in pieces when the file is written. `run` is the
pass; `castsmith.ir.ops.movement` gives the moves of elements that are folded.
"""
