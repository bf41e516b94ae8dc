"""Conversion of a model to another floating-point precision: the only pass that changes values, on request.

Run `ConvertPrecision(to=...)`, the pass in `run`.

    patterns       nodes selected by name, operator or path
    ports          the inputs and outputs of a node that change with it
    operators      the operators that are sensitive
    sensitivity    the nodes of these operators that stay in float
    constants      the constants that fit the precision
    facts          what values hold of constants
    evidence       what is known of magnitudes, and where the precision ends
    problem        the choice for the whole model
    gains          the worth of converting a node, and the cost of casts
    apply          the changed graph
"""
