"""Casts placed at least cost: a minimum cut over regions of operators that only move elements.

Run `PlaceCasts`. `regions` finds the operators across which a cast may move, `problem` and `choices` state the cost,
`cut` finds the minimum, and `apply` changes the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.passes.place.movable import data_inputs
    from castsmith.passes.place.problem import LAUNCH_BYTES
    from castsmith.passes.place.run import PlaceCasts
    from castsmith.passes.place.sizes import Sizes, parse_sizes

__all__ = ["LAUNCH_BYTES", "PlaceCasts", "Sizes", "data_inputs", "parse_sizes"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "movable": ("data_inputs",),
            "problem": ("LAUNCH_BYTES",),
            "run": ("PlaceCasts",),
            "sizes": ("Sizes", "parse_sizes"),
        },
    )
