"""Castsmith."""
