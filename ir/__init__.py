"""Models: records, names and scopes, walks, rewriting, validation, and the passes' base class.

Passes report `records`, derive from `rewrite_pass.RewritePass` and change a graph through `rewriting`. The sub-packages
answer questions of passes: types (`inference`), operators (`ops`), targets (`targets`), files (`io`).
"""
