"""Mistakes planted one at a time in a package of the source, and judged by the tests of that package alone.

    python -m tests.mutants numerics ir passes lowering --count 75 --seed 1

`operators` makes the mistakes, `reached` records which test reaches which statement, `judge` runs the tests that reach
a mistake until one of them fails. Nothing is written into the tree but the record, below `out/`. A mistake that changes
no result is listed in `equivalent.txt`, with the reason.
"""
