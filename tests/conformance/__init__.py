"""Tests of castsmith.conformance."""
