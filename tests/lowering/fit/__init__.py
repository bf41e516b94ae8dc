"""Tests of castsmith.lowering.fit."""
