"""Shapes, and the arithmetic on them that the declared shapes fix.

Run `FoldShapes`. `Shapes` gives the shape of a value, and its elements if they are few and known: as numbers, or as
sums of products of the symbols of dimensions (`symbols`). `elements` holds such a shape (`Dims`) or array.

    run         the pass
    walk        `Shapes`: both facts, each computed once, on demand
    bounds      `ranges_of`: the ranges of integers, with what shapes say of them
    dims        the rules for shapes
    contents    the rules for elements
    targets     shape operands replaced by equivalent constants
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.passes.shapes.bounds import ranges_of
    from castsmith.passes.shapes.elements import Dims
    from castsmith.passes.shapes.run import FoldShapes
    from castsmith.passes.shapes.symbols import Poly, Symbol, Unknown
    from castsmith.passes.shapes.walk import Shapes

__all__ = ["Dims", "FoldShapes", "Poly", "Shapes", "Symbol", "Unknown", "ranges_of"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "bounds": ("ranges_of",),
            "elements": ("Dims",),
            "run": ("FoldShapes",),
            "symbols": ("Poly", "Symbol", "Unknown"),
            "walk": ("Shapes",),
        },
    )
