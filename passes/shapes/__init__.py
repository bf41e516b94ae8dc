"""Shapes, and the arithmetic on them that the declared shapes fix.

Run `FoldShapes`. `Shapes` gives the shape of a value, and its elements if they are few and known: as numbers, or as
sums of products of the symbols of dimensions (`castsmith.numerics.symbols`). `elements` holds such an array.

    run         the pass
    walk        `Shapes`: both facts, each computed once, on demand
    dims        the rules for shapes; those of moves are in `castsmith.ir.ops.movement`
    contents    the rules for elements
    targets     shape operands replaced by equivalent constants
"""
