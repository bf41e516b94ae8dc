"""Shapes of values, and the elements that are computed from shapes and small constants.

`Shapes` gives the shape of a value of a model, and its elements if they are few and known: as numbers, or as sums of
products of the symbols of dimensions (`castsmith.numerics.symbols`). `dims_of` gives the shapes of one node's outputs
by what is known of its inputs; bounds of values ask it node by node.

    walk        `Shapes`: both facts, each computed once, on demand
    dims        the rules for shapes; those of moves are in `castsmith.ir.ops.movement`
    contrib     the same for the operators of com.microsoft
    contents    the rules for elements
    arithmetic  the rules for elements of operators that compute element by element
    elements    `Operation`, a node with the facts about its inputs, and arrays of known elements
"""
