"""Promotion: ConvertPromoteTypes is inserted where operands disagree, and resolved into casts.

Run `InsertPromoteTypes` and then `ResolvePromoteTypes`. `specialise_functions` copies functions that are called with
several sets of types.
"""
