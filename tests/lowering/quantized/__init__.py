"""Operators for quantized formats as standard ones, and the other way."""
