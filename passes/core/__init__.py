"""What passes share: their base class, the facts that they hand on, rewriting, options, costs.

rewrite_pass  `RewritePass`, the base class; the records of a run, and provenance
session       facts about a model that rewrites keep, and those that they invalidate
rewriting     `Replacement`, and how it is put into the graph
options       the options of passes and pipelines, validated once
cost          the measure that every change lowers
min_cut       a minimum cut, for the choice of types
"""
