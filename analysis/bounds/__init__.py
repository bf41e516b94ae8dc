"""Bounds of the values of a model: intervals that hold for every input, and what was measured on given ones.

Call `bounds(model, ranges=..., inputs=...)`: for each value it gives a `Bound`, whose `how` says if it is proven,
measured or unknown. `exceeding(found, to=...)` lists the values that a narrower type does not hold.

    analysis        the walk through graphs; rules by operator are in
    rules, control_flow
    patterns        normalizations as exporters write them out
    interval, rounding, step    what the elements of a value may be, what roundings add, and a node as its rule sees it
    reading         large constants, read once for all that is asked of them
    sums, weights   products with a constant matrix, and the constants that are matrices
    report          the public result: bounds by name, what exceeds a type, and which inputs to declare
"""
