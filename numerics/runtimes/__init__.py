"""Conversions as computed by a named runtime where the standard leaves the result open.

Call `cast_as(runtime, ...)`. `differences` lists how each runtime departs from the schema.
"""
