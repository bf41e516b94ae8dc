"""Findings about the element types of a model, for any runtime or for a target; nothing is changed.

Call `check(model, target=...)`. `result_findings`, `trunc_findings` and `unreported_errors` are the last step of
`optimize`, which reports every error that a later check would find.
"""
