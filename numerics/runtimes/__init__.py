"""Conversions as computed by a named runtime where the standard leaves the result open: `cast_as(runtime, ...)`."""
