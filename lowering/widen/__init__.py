"""The pass that computes in float if the target has no 16-bit kernel, and rounds wrong casts once.

Run `WidenFloats(target=...)`. `UnifyOperands` is the part of it that a conversion needs: one type for all operands.
"""
