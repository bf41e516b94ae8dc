"""Operators of vendors as standard ones."""
