"""The page of verify, and the strips of precision, magnitude and error along the graph, here and of what is healed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import pytest

import castsmith as public
from castsmith.cli.page.overview import overview
from castsmith.cli.page.verify import _departure, _nodes, verify_page  # pyright: ignore[reportPrivateUsage]
from castsmith.ir.records import NodeItem, Site, ValueItem
from castsmith.verification.compare import Difference
from castsmith.verification.verdict import Mismatch, Traced, Verdict
from tests.cli.helpers import Command, write_model
from tests.cli.page.chromium import run_in_page
from tests.cli.page.test_data import data_of

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
    g ({type}[4] x) => ({type}[4] y) {{ a = Relu (x) s = Mul (a, a) q = Sqrt (s) d = Div (q, s) y = Sigmoid (d) }}"""
FLOAT, HALF = TEXT.format(type="float"), TEXT.format(type="float16")
X = np.array([1, 2, 300, 400])


def report(castsmith: Command, folder: Path) -> Path:
    a, b, page = write_model(folder / "a.onnx", FLOAT), write_model(folder / "b.onnx", HALF), folder / "v.html"
    np.savez(folder / "x.npz", x=X.astype(np.float32))
    words = ("--inputs", folder / "x.npz", "--allow-type-change", "all", "--rtol", "0.01")
    assert castsmith("verify", a, b, *words, "--report", page).code == 1
    return page


def test_the_page_has_the_first_difference_and_the_errors_along_the_graph(castsmith: Command, tmp_path: Path) -> None:
    data = data_of(report(castsmith, tmp_path).read_text())
    (item,) = data["items"]
    assert dict(data["figures"])["verdict"] == "different"
    assert (item["rule"], item["at"], item["before"][:9]) == ("first-difference", [1], "s = Mul (")
    nodes = {node["op"]: node for node in data["map"]}
    assert [nodes[op]["error"] for op in ("Relu", "Mul", "Sqrt")] == [0.0, sys.float_info.max, sys.float_info.max]
    assert {node["type"] for node in nodes.values()} == {"float16"}
    assert nodes["Mul"]["magnitude"] == 160000
    assert data["error"]["table"][1] == ["y", "4", "inf", "inf", "rtol 0.01, atol 0"]
    script = "return [count('.strip'), count('.strip .over'), document.documentElement.scrollWidth <= innerWidth]"
    for width in (400, 1280):
        # Red: the magnitude of s; the errors of s, q, d and y, of which d is infinity divided by infinity.
        assert run_in_page(tmp_path / "v.html", script, width=width) == [2, 5, True]


@pytest.mark.usefixtures("one_process")
def test_folders_get_a_page_for_each_pair(castsmith: Command, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_model(tmp_path / name / "m.onnx", FLOAT)
    assert castsmith("verify", tmp_path / "a", tmp_path / "b", "--sets=1", "--report", tmp_path / "r.html").code == 0
    (model,) = data_of((tmp_path / "r.html").read_text())["models"]
    assert model["page"]["items"] == []
    assert dict(model["page"]["figures"])["verdict"] == "equal"
    assert {node["error"] for node in model["page"]["map"]} == {0.0}


def test_traced_values_are_only_there_on_request() -> None:
    a, b = (onnx.parser.parse_model(text) for text in (FLOAT, HALF))
    options: dict[str, Any] = {"inputs": {"x": X.astype(np.float32)}, "accept": ("all",), "rtol": 0.01}
    assert public.verify(a, b, **options).traced == []
    traced = {value.value: value for value in public.verify(a, b, **options, trace=True).traced}
    assert list(traced) == ["a", "s", "q", "d", "y"]
    assert (traced["a"].magnitude, traced["a"].error) == (400.0, 0.0)
    assert (traced["s"].magnitude, traced["s"].error) == (160000.0, np.inf)


def test_healed_rescaled_and_fitted_models_have_magnitudes() -> None:
    models = {np.float16: onnx.parser.parse_model(HALF), np.float32: onnx.parser.parse_model(FLOAT)}
    for dtype, rescale in ((np.float16, False), (np.float16, True), (np.float32, True)):
        result = public.convert(models[dtype], to="float16", inputs={"x": X.astype(dtype)}, rescale=rescale)
        computed = [name for name in result.precisions if not name.startswith("castsmith_")]  # not what scales
        assert list(result.magnitudes) == computed
        if not rescale:
            assert result.magnitudes["s"] == 160000
        else:  # as the model computes it now
            name = "s" if dtype == np.float16 else "s_scaled"
            assert result.magnitudes[name] == 160000 / 2 ** result.factors["s_scaled"]
            assert max(result.magnitudes.values()) < 65504


def test_the_page_of_a_fitted_model_has_precisions_and_magnitudes(castsmith: Command, tmp_path: Path) -> None:
    model, page = write_model(tmp_path / "m.onnx", TEXT.format(type="double")), tmp_path / "f.html"
    np.savez(tmp_path / "x.npz", x=X.astype(np.float64))
    words = ("--target", "tensorrt-11", "--max-error", "0.01", "--inputs", tmp_path / "x.npz")
    assert castsmith("fit", model, *words, "-o", tmp_path / "out.onnx", "--report", page).code == 0
    nodes = {node["op"]: (node["type"], node["magnitude"]) for node in data_of(page.read_text())["map"]}
    assert nodes == {
        "Relu": ("float", 400),
        "Mul": ("float", 160000),
        "Sqrt": ("float", 400),
        "Div": ("float", 1),
        "Sigmoid": ("float", nodes["Sigmoid"][1]),
    }
    script = "return [count('.strip .t-float'), count('.strip .fits'), count('.strip .over')]"
    assert run_in_page(page, script) == [5, 4, 1]


def loaded(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


def test_the_types_along_the_graph() -> None:
    """That of a cast is the type that it takes; values that only one model makes, and inputs, are left out."""
    head = '<ir_version: 10, opset_import: ["" : 18, "own" : 1]> g '
    nodes = "h = Cast <to = 10> (x) c = Cast <to = 1> (h) s = Shape (c) u = own.Op (c) z = Relu (c)"
    a = loaded(f"{head} (float[4] x) => (int64[1] s, float[4] z) {{ i = Neg (x) only = Abs (x) {nodes} }}")
    b = loaded(f"{head} (float[4] x, double[4] i) => (int64[1] s, float[4] z) {{ {nodes} t = Neg (x) }}")
    names = ("x", "h", "c", "s", "u", "z", "i", "only", "t")
    verdict = Verdict("reference", traced=[Traced(name, np.inf, float(n)) for n, name in enumerate(names)])
    drawn = list(_nodes(b, overview(a), verdict))
    assert [(node["op"], node["type"], node["error"]) for node in drawn] == [
        ("Cast", "float", 1.0), ("Cast", "float16", 2.0), ("Shape", "int64", 3.0), ("Op", "unknown", 4.0),
        ("Relu", "float", 5.0), ("Neg", "double", 6.0),
    ]  # fmt: skip
    assert {node["magnitude"] for node in drawn} == {sys.float_info.max}


def test_the_first_value_that_differs() -> None:
    """It is drawn if one of the models makes it by a node; otherwise its item says that it is an output."""
    model = loaded(FLOAT)
    x, y = ValueItem("x", "float"), ValueItem("y", "float")
    relu, neg = NodeItem("Relu", (x,), (y,)), NodeItem("Neg", (x,), (y,))
    for nodes, index, group, is_drawn, place in (
        ((None, None), (), "output", False, "y"),
        ((relu, None), (0,), "output", True, "y[0]"),
        ((None, neg), (1, 2), "Neg", True, "y[1, 2]"),
        ((relu, neg), (3,), "Neg", True, "y[3]"),
    ):
        mismatch = Mismatch("set 1", "y", Site("g", "n", "Op"), nodes, Difference(index, "1", "2", 1, 4), ("p", "q"))
        item = _departure(("a", "b"), mismatch, overview(model))
        assert item["reason"] == f"{place} is 1 in a and 2 in b, on inputs set 1"
        assert (item["group"], item["drawn"], item["detail"]) == (group, is_drawn, "p; q")
        assert [bool(item[side]) for side in ("before", "after")] == [node is not None for node in nodes]


def test_the_verdict_of_the_page() -> None:
    model = loaded(FLOAT)
    mismatch = Mismatch("1", "y", Site("g", "n", "Op"), (None, None), Difference((), "1", "2", 1, 4))
    rows: list[tuple[dict[str, Any], str, list[str]]] = [
        ({}, "equal", []),
        ({"interface": ["y is int8"]}, "different", ["y is int8"]),
        ({"mismatch": mismatch}, "different", []),
        ({"unsure": ["no set"], "advice": ["pass --dim"]}, "inconclusive", ["no set", "to decide it, pass --dim"]),
    ]
    for options, outcome, notes in rows:
        verdict = Verdict("reference", **options)
        page = verify_page(("a", "b"), model, model, verdict)
        figures = [["verdict", outcome], ["sets of inputs", "0"], ["elements compared", "0 of 0"]]
        assert [*map(list, page["figures"])] == figures
        assert page["error"]["notes"][: len(notes)] == notes
        assert page["title"] == "a \u2192 b"
        assert len(page["items"]) == ("mismatch" in options)
