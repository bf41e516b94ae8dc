"""Casts placed at least cost: a minimum cut over regions of operators that only move elements.

Run `PlaceCasts`. `regions` finds the operators across which a cast may move, `problem` and `choices` state the cost,
`cut` finds the minimum, and `apply` changes the graph.
"""
