"""The pass that narrows int64 to int32, or double to float, if the result is identical for every input.

Run `NarrowTypes(narrow=...)`; it runs only on request.
"""
