"""The passes that replace QONNX Trunc and Quant by standard operators that give the same bits.

Run `LowerTrunc(target=...)` and `LowerQuant(target=...)`.
"""
