"""Models: records, names and scopes, walks, rewriting, validation, and the passes' base class.

`records` is what passes report, `rewrite_pass.RewritePass` what they derive from, `rewriting` how they change a graph.
The sub-packages are what passes ask: types (`inference`), operators (`ops`), targets (`targets`), files (`io`).
"""
