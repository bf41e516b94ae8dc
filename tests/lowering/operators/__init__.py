"""Tests of castsmith.lowering.operators."""
