"""Structural comparison of two models: nodes, tensors and ports that are the same, changed, added or removed.

Call `diff(a, b)`; the `ModelDiff` it returns is true if they differ. `keys` gives each node a key that does not depend
on names, `match` pairs the nodes, and `graphs` lists the differences within pairs. `digest` of `tensors` stands for the
bits of a constant.
"""
