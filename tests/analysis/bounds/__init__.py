"""Bounds of values: sound on random networks, tight on single layers."""
