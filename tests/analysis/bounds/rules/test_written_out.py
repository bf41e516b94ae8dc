"""Normalizations that exporters write out in arithmetic."""

from __future__ import annotations

from castsmith import bounds
from tests.analysis.bounds.test_analysis import model_of


def test_normalizations_that_exporters_write_out() -> None:
    text = """m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) d2 = Sub (x, m) two = Constant <value = float {2}> ()
        q = Pow (d2, two) v = ReduceMean <axes = [-1]> (q) e = Constant <value = float {1e-6}> () a = Add (v, e)
        r = Sqrt (a) y = Div (d, r)"""
    assert bounds(model_of(text, opset=13))["y"].magnitude <= 2.01
    text = """m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) q = Mul (d, d) v = ReduceMean <axes = [-1]> (q)
        e = Constant <value = float {1e-6}> () a = Add (v, e) r = Sqrt (a) i = Reciprocal (r) g = Mul (i, w)
        xs = Mul (x, g) ms = Mul (m, g) b = Sub (w, ms) y = Add (xs, b)"""
    found = bounds(model_of(text, constants="float[4] w = {1, 1, 1, 1}", opset=13), ranges={"x": (-1, 1)})["y"]
    assert found.magnitude <= 3.1
