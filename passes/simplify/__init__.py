"""Local rules that remove, merge or skip casts where the result is identical for every input.

Run `SimplifyCasts`.
"""
