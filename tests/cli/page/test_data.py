"""The HTML report: self-contained, safe whatever the names, small; and, where there is Chromium, opened and used."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import onnx
import onnx.helper
import onnx.parser
import onnx_ir
import pytest

from castsmith.cli.page.data import (
    _change_reason,  # pyright: ignore[reportPrivateUsage]
    _nodes_at,  # pyright: ignore[reportPrivateUsage]
    diff_page,
    html_text,
)
from castsmith.ir.records import Item, NodeItem, Site, ValueItem
from castsmith.verification.diff.interface import Change
from castsmith.verification.diff.models import diff
from tests.cli.helpers import MIXED, UNSAFE, Command, write_model
from tests.cli.page.chromium import run_in_page
from tests.sampling import complete_only

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    text = found[1]
    return json.loads(text if text.startswith("{") else gzip.decompress(base64.b64decode(text)))


def hostile_model(path: Path) -> Path:
    proto = onnx.parser.parse_model(MIXED)
    proto.graph.name, proto.graph.node[0].name = HOSTILE, f"{HOSTILE}/*DATA*/"
    onnx.save_model(proto, path)
    return path


def chain_of_casts(path: Path, count: int, to: int = 17) -> Path:
    nodes: list[onnx.NodeProto] = []
    for index in range(count):
        names = f"v{index}", f"q{index}", f"d{index}", f"v{index + 1}"
        nodes.append(onnx.helper.make_node("Cast", [names[0]], [names[1]], name=f"/layer.{index}/quantize", to=to))
        nodes.append(onnx.helper.make_node("Cast", [names[1]], [names[2]], name=f"/layer.{index}/dequantize", to=1))
        nodes.append(onnx.helper.make_node("Relu", [names[2]], [names[3]], name=f"/layer.{index}/relu"))
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["batch", 64]) for name in ("v0", f"v{count}")]
    graph = onnx.helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    onnx.save_model(model, path)
    return path


def report(castsmith: Command, source: Path) -> Path:
    page = source.with_suffix(".html")
    out = source.with_name("out.onnx")
    ended = castsmith("optimize", source, "-o", out, "--report", page, "--target", "onnxruntime-android")
    assert ended.code == 0
    return page


def test_the_page_asks_for_nothing_and_holds_everything(castsmith: Command, tmp_path: Path) -> None:
    text = report(castsmith, write_model(tmp_path / "a.onnx", MIXED)).read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=[\"']?(http|//)|@import|url\(", text)
    assert "innerHTML" not in text
    data = data_of(text)
    assert data["schema"] == 1
    assert [item["rule"] for item in data["items"]] == ["promote-operands + resolve-promotion"]
    assert data["around"]["before"]["z"] == ["Add", ["output"]]
    assert ["casts", "0 \u2192 1"] in data["figures"]


def test_names_cannot_leave_the_data(castsmith: Command, tmp_path: Path) -> None:
    text = report(castsmith, hostile_model(tmp_path / "a.onnx")).read_text()
    assert text.count("<script") == 3
    assert HOSTILE not in text
    assert data_of(text)["items"][0]["place"].startswith(HOSTILE)
    assert html_text({"title": "/*SCRIPT*/"}).count('"use strict"') == 2


def test_many_rewrites_are_a_small_file(castsmith: Command, tmp_path: Path) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 60))
    assert page.stat().st_size < 200_000
    assert len([item for item in data_of(page.read_text())["items"] if item["kind"] == "rewrite"]) >= 120


def test_refusals_show_the_node_that_stays(castsmith: Command, tmp_path: Path) -> None:
    source = tmp_path / "a.onnx"
    write_model(
        source,
        """<ir_version: 10, opset_import: ["" : 18]>
        g () => (int8[2] z) <float[2] w = {1.0, 1000.0}> { z = Cast <to = 3> (w) }""",
    )
    refused = [item for item in data_of(report(castsmith, source).read_text())["items"] if item["kind"] == "refusal"]
    assert refused
    assert refused[0]["before"].startswith("z = Cast <to = int8> (w)")
    assert "example value: 1000.0" in refused[0]["reason"]


def test_diff_as_html(castsmith: Command, tmp_path: Path) -> None:
    source = write_model(tmp_path / "a.onnx", MIXED)
    report(castsmith, source)
    ended = castsmith("diff", source, tmp_path / "out.onnx", "--format", "html")
    assert ended.code == 1
    assert {item["rule"] for item in data_of(ended.out)["items"]} == {"node-added", "operand-changed"}
    assert castsmith("diff", source, source, "--format", "html").code == 0


@complete_only
def test_10000_nodes_are_less_than_a_megabyte_and_filter_within_a_second(castsmith: Command, tmp_path: Path) -> None:
    source, page = chain_of_casts(tmp_path / "a.onnx", 3334, to=11), tmp_path / "r.html"
    assert castsmith("optimize", source, "-o", tmp_path / "b.onnx", "--report", page, "-q").code == 0
    assert page.stat().st_size < 1_000_000
    data = data_of(page.read_text())
    assert len(data["overview"]["depths"]) == 10_002
    assert len(data["items"]) == 3334
    found = run_in_page(
        page,
        """
        const box = document.getElementById('search'), first = rows().length, times = [];
        for (let turn = 0; turn < 5; turn++) {  // the least of several: the machine may have other work
            const start = performance.now();
            box.value = turn % 2 ? 'layer' : 'layer.3333';
            box.form.requestSubmit();
            document.body.offsetHeight;
            times.push(performance.now() - start);
        }
        return [Math.min(...times), first, rows().length, count('.overview .at')];
        """,
    )
    assert found[0] < 1000
    assert found[1:] == [3, 1, 3334]


def test_the_map_has_the_places_of_changes(castsmith: Command, tmp_path: Path) -> None:
    data = data_of(report(castsmith, chain_of_casts(tmp_path / "a.onnx", 4)).read_text())
    whole = data["overview"]
    assert whole["depths"] == list(range(12))
    assert [whole["names"][op] for op in whole["operators"]] == ["Cast", "Cast", "Relu"] * 4
    assert whole["edges"] == [end for index in range(11) for end in (index, index + 1)]
    places = {item["place"]: item["at"] for item in data["items"] if item["kind"] == "rewrite"}
    assert places["chain: /layer.2/quantize (Cast)"] == [6]


def test_in_chromium_search_filter_and_expand(castsmith: Command, tmp_path: Path) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 120))
    found = run_in_page(
        page,
        """
        const before = rows().length, folded = [...document.querySelectorAll('.alike')].map((each) => each.textContent);
        choose('kind', 'rewrite');
        await search('layer.119/dequantize');
        const one = rows();
        one[0].click();
        const opened = [one[0].getAttribute('aria-expanded'), document.querySelectorAll('.picture svg').length,
            document.querySelectorAll('svg .box.cast').length > 0];
        one[0].click();
        return { before, folded, one: one.length, opened, closed: document.querySelectorAll('.body').length };
        """,
    )
    assert found["one"] == 1
    assert found["opened"] == ["true", 2, True]
    assert found["closed"] == 0
    assert 3 <= found["before"] < 40
    assert "and 117 more in the same way" in found["folded"]


def test_in_chromium_rows_are_grouped_and_all_can_be_opened(castsmith: Command, tmp_path: Path) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 6))
    items = data_of(page.read_text())["items"]
    found = run_in_page(
        page,
        """
        const headings = [...document.querySelectorAll('#list h2')].map((each) => each.textContent);
        document.getElementById('all').click();
        const opened = [rows().length, count('.body'), count('.alike')];
        document.getElementById('all').click();
        return { headings, opened, closed: count('.body') };
        """,
    )
    assert found["opened"] == [len(items), len(items), 0]
    assert found["closed"] == 0
    assert "lower-float8, lower-Cast (6)" in found["headings"]
    counts = [int(heading.rpartition("(")[2].rstrip(")")) for heading in found["headings"]]
    assert sum(counts) == len(items)


def test_in_chromium_a_link_opens_its_row_and_the_map_too(castsmith: Command, tmp_path: Path) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 60))
    items = data_of(page.read_text())["items"]
    last = max(index for index, item in enumerate(items) if item["kind"] == "rewrite" and item["at"])
    script = """
        const open = () => rows().filter((each) => each.ariaExpanded === 'true').map((each) => each.parentElement.id);
        const linked = open();
        choose('kind', 'rewrite');
        await search('layer.3/quantize');
        const marks = [...document.querySelectorAll('.overview .at')];
        marks[marks.length - 1].dispatchEvent(new MouseEvent('click'));
        return { linked, after: open(), marks: marks.length, box: document.getElementById('search').value };
    """
    found = run_in_page(page, script, fragment=f"r{last}")
    assert found["linked"] == [f"r{last}"]
    assert found["marks"] == len({place for item in items for place in item["at"]})
    assert found["after"]
    assert found["box"] == ""


def test_in_chromium_filters_by_kind_and_rule(castsmith: Command, tmp_path: Path) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 20))
    items = data_of(page.read_text())["items"]
    found = run_in_page(
        page,
        """
        const shown = () => document.getElementById('count').textContent, counts = {};
        for (const option of [...document.querySelectorAll('#kind option')].slice(1)) {
            choose('kind', option.textContent);
            counts[option.value] = shown();
        }
        choose('kind', 'everything');
        choose('group', 'lower-Cast');
        const cast = shown();
        choose('group', 'all rules');
        const button = document.querySelector('.rules button');
        button.click();
        const tags = [...document.querySelectorAll('.row .tag')].map((each) => each.textContent);
        return { counts, cast, rule: button.textContent, tags };
        """,
    )
    for kind, shown in found["counts"].items():
        assert shown == f"{sum(item['kind'] == kind for item in items)} of {len(items)}"
    assert found["cast"] == f"20 of {len(items)}"
    assert found["tags"]
    assert all(found["rule"] in tag.split(" + ") for tag in found["tags"])


def test_in_chromium_by_keyboard_alone(castsmith: Command, tmp_path: Path) -> None:
    found = run_in_page(
        report(castsmith, chain_of_casts(tmp_path / "a.onnx", 3)),
        """
        const press = (key) => document.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
        ['j', 'j', 'k', 'j'].forEach(press);
        const at = rows().indexOf(document.activeElement);
        press('/');
        const focused = document.activeElement.id;
        press('Escape');
        return [at, focused, document.activeElement.tagName];
        """,
    )
    assert found == [1, "search", "BODY"]


@pytest.mark.parametrize("width", [1280, 500])
def test_in_chromium_every_size_theme_and_print(castsmith: Command, tmp_path: Path, width: int) -> None:
    """Nothing is wider than the window, the text stands out in each theme, nothing is fetched, and all is printed."""
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 5))
    found = run_in_page(
        page,
        """
        const colours = [], theme = document.getElementById('theme');
        for (let turn = 0; turn < 3; turn++) {
            const style = getComputedStyle(document.body);
            colours.push([theme.textContent, style.color, style.backgroundColor]);
            theme.click();
        }
        document.getElementById('all').click();
        const wide = document.documentElement.scrollWidth;
        document.getElementById('all').click();
        window.dispatchEvent(new Event('beforeprint'));
        const fetched = performance.getEntriesByType('resource').length, folded = '.alike, details:not([open])';
        return { colours, wide, fetched, errors, printed: count('.body'), folded: count(folded) };
        """,
        width=width,
    )
    assert found["wide"] <= width
    for name, *texts in found["colours"]:
        ink, ground = (sum(map(int, re.findall(r"\d+", text)[:3])) for text in texts)
        assert abs(ink - ground) > 450
        assert name == "Theme: system" or (ink < ground) == name.endswith("light")
    assert {name for name, *_ in found["colours"]} == {"Theme: system", "Theme: light", "Theme: dark"}
    assert (found["fetched"], found["errors"], found["folded"]) == (0, [], 0)
    assert found["printed"] == len(data_of(page.read_text())["items"])


@pytest.mark.parametrize("width", [1280, 500])
@pytest.mark.usefixtures("one_process")
def test_in_chromium_the_table_of_many_models_fits(castsmith: Command, tmp_path: Path, width: int) -> None:
    """A long message of a model that failed widens neither the page nor, where there is room, the table."""
    page, name = tmp_path / "many.html", "a-long-name-" * 8
    models = write_model(tmp_path / f"{name}.onnx", UNSAFE), write_model(tmp_path / "b.onnx", MIXED)
    assert castsmith("optimize", *models, "-o", f"{tmp_path}/out/", "--report", page).code == 1
    found = run_in_page(
        page,
        """
        const [box, note, head] = ['.rules', '.note', 'th'].map((each) => document.querySelector(each));
        const wide = document.documentElement.scrollWidth, at = note.getBoundingClientRect();
        return [wide, box.scrollWidth - box.clientWidth, at.right, at.height, head.getBoundingClientRect().height];
        """,
        width=width,
    )
    assert found[0] <= width
    assert found[1] == 0 or width < 1280
    assert found[2] <= width
    assert found[3] > 1.2 * found[4]


def test_in_chromium_hostile_names_are_only_text(castsmith: Command, tmp_path: Path) -> None:
    found = run_in_page(
        report(castsmith, hostile_model(tmp_path / "a.onnx")),
        """
        document.getElementById('all').click();
        return [document.title, document.querySelectorAll('img').length, document.querySelector('.place').textContent];
        """,
    )
    assert found[0].endswith("out.onnx")
    assert found[1] == 0
    assert HOSTILE in found[2]


SPLIT = """<ir_version: 10, opset_import: ["" : 18]>
g (float16[6] x) => (float[2] a, float[2] b, float[2] c) {
    wide = Cast <to = 1> (x)
    a, b, c = Split <num_outputs = 3> (wide)
}"""


def test_in_chromium_edges_of_several_outputs_are_apart(castsmith: Command, tmp_path: Path) -> None:
    source, other = (
        write_model(tmp_path / "a.onnx", SPLIT),
        write_model(tmp_path / "b.onnx", SPLIT.replace("Split", "Own")),
    )
    page = tmp_path / "d.html"
    page.write_text(castsmith("diff", source, other, "--format", "html").out)
    found = run_in_page(
        page,
        """
        document.getElementById('all').click();
        const lines = (each) => [...each.querySelectorAll('path')].map((path) => path.getAttribute('d'));
        return [...document.querySelectorAll('.picture')].map(lines);
        """,
    )
    starts = [path.partition("H")[0] for paths in found for path in paths if len(paths) == 4]
    assert len(starts) == 8
    assert all(len(set(paths)) == len(paths) for paths in found)
    assert len({path.partition("H")[0] for path in found[0]}) == len(found[0])


def test_the_map_knows_names_and_modules(castsmith: Command, tmp_path: Path) -> None:
    whole = data_of(report(castsmith, chain_of_casts(tmp_path / "a.onnx", 4)).read_text())["overview"]
    assert whole["labels"][:4] == [
        *(f"/layer.0/{kind}" for kind in ("quantize", "dequantize", "relu")),
        "/layer.1/quantize",
    ]
    assert [whole["paths"][number] for number in whole["modules"]] == [f"layer/{index // 3}" for index in range(12)]


def test_in_chromium_the_map_zooms_and_tells_names(castsmith: Command, tmp_path: Path) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 30))
    script = """
        const svg = document.querySelector('.overview'), box = svg.getBoundingClientRect();
        const view = () => svg.getAttribute('viewBox').split(' ').map(Number);
        const bars = () => [...document.querySelectorAll('.bar')].map((each) => each.textContent);
        const buttons = [...document.querySelectorAll('.zoom button')], click = (index) => buttons[index].click();
        const whole = view(), first = bars();
        const place = { clientX: box.left + box.width / 180, clientY: box.top + box.height / 2 };
        svg.dispatchEvent(new PointerEvent('pointermove', place));
        const tip = document.querySelector('.tip').textContent;
        click(0);
        const nearer = view();
        svg.dispatchEvent(new PointerEvent('pointerdown', { clientX: 500 }));
        svg.dispatchEvent(new PointerEvent('pointermove', { clientX: 400 }));
        window.dispatchEvent(new PointerEvent('pointerup'));
        const moved = view();
        click(1); click(2);
        document.querySelector('.bar').click();
        const module = view();
        return { whole, first, tip, nearer, moved, module, legend: document.querySelector('.legend').textContent };
    """
    found = run_in_page(page, script)
    assert found["first"] == [f"layer.{index}" for index in range(30)]
    assert found["tip"].startswith("/layer.0/quantize (Cast)\nlayer/0\n")
    assert found["nearer"][2] == found["whole"][2] / 2
    assert found["moved"][0] > found["nearer"][0]
    assert 0 < found["module"][2] < found["whole"][2] / 8
    assert found["legend"].startswith("30 nodes60 casts")


def test_only_what_changes_something_is_drawn(castsmith: Command, tmp_path: Path) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 3))
    items = data_of(page.read_text())["items"]
    assert {item["drawn"] for item in items if item["kind"] == "rewrite"} == {True}
    source = write_model(tmp_path / "u.onnx", MIXED)
    assert castsmith("convert", source, "-o", tmp_path / "c.onnx", "--to", "fp16", "--report", page).code == 0
    skipped = [item["drawn"] for item in data_of(page.read_text())["items"] if item["kind"] == "refusal"]
    assert True not in skipped


def test_a_difference_in_one_line() -> None:
    """Of a node it is the code of both sides, of anything else the texts, each cut where it is long."""
    x, y = ValueItem("x", "float"), ValueItem("y", "float")
    relu, long = NodeItem("Relu", (x,), (y,)), "b" * 91
    rows: list[tuple[str, tuple[str, str], tuple[Item | None, Item | None], str]] = [
        ("node", ("old", "new"), (relu, None), "y = Relu (x) \u2192 new"),
        ("operator", ("old", "new"), (None, relu), "old \u2192 y = Relu (x)"),
        ("node", ("", "new"), (None, relu), "y = Relu (x)"),
        ("type of x", ("float", "int8"), (x, y), "type of x: float \u2192 int8"),
        ("name", ("b" * 90, long), (None, None), f"name: {'b' * 90} \u2192 {'b' * 90}\u2026"),
    ]
    for subject, sides, items, text in rows:
        assert _change_reason(Change("kind", "g", subject, *sides, "", *items)) == text


def test_how_many_differences_a_page_has() -> None:
    a, b = (onnx_ir.from_proto(onnx.parser.parse_model(text)) for text in (MIXED, MIXED.replace("Add", "Mul")))
    for other, sub in ((a, "The models are the same."), (b, "1 difference")):
        page = diff_page("a", a, other, diff(a, other))
        assert page["sub"] == sub
        assert page["figures"][0] == ("differences", str(int(other is b)))
        count = {"same": int(other is a), "changed": int(other is b), "added": 0, "removed": 0}
        assert page["figures"][1:] == [(f"nodes {key}", str(number)) for key, number in count.items()]


def test_the_nodes_at_places() -> None:
    """By the name, or where several have it by the output; none if it is gone or still ambiguous."""
    text = """<ir_version: 10, opset_import: ["" : 18]> g (float[N] x, bool k) => (float[N] z, float[N] e) {
        a = Relu (x) b = Relu (a) [named] c = Neg (b) [twice] d = Abs (c) [twice] z = Abs (d)
        e = If (k) <then_branch = s () => (float[N] r) { r = Exp (x) },
                    else_branch = s () => (float[N] r) { r = Exp (x) }>
    }"""
    model: Any = onnx_ir.from_proto(onnx.parser.parse_model(text))
    sites = [
        *(Site("g", "", "Relu", output) for output in ("b", "a", "x")),
        *(Site("g", "named", "Neg", output) for output in ("c", "x")),
        Site("h", "named", "Neg", "c"),
        Site("g", "twice", "Abs", "z"),
        Site("s", "", "Exp", "r"),
    ]
    codes = [[item.code for item in items] for items in _nodes_at(model, sites)]
    assert codes == [["b = Relu (a)"], ["a = Relu (x)"], [], *[["c = Neg (b)"]] * 2, [], ["z = Abs (d)"], []]
    assert _nodes_at(model, sites)[0][0].outputs[0].element == "float"
    model = None
    assert _nodes_at(model, []) == []  # without a walk
