"""Arithmetic on shapes that the declared shapes fix (see `castsmith.analysis.shapes`).

Run `FoldShapes`.

    run         the pass
    targets     shape operands replaced by equivalent constants
    conflicts   nodes whose operands have shapes that do not fit
"""
