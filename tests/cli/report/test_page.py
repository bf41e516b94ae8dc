"""The HTML report: self-contained, safe whatever the names, small; and, where there is Chromium, opened and used."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx.helper
import onnx.parser
import pytest

from castsmith.cli.page.data import html_text
from tests.cli.helpers import MIXED, Command, write_model

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


def chain_of_casts(path: Path, count: int) -> Path:
    nodes: list[onnx.NodeProto] = []
    for index in range(count):
        names = f"v{index}", f"q{index}", f"d{index}", f"v{index + 1}"
        nodes.append(onnx.helper.make_node("Cast", [names[0]], [names[1]], name=f"/layer.{index}/quantize", to=17))
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
    assert [item["rule"] for item in data["items"]] == ["promote-operands", "resolve-promotion"]
    assert data["around"]["before"]["z"] == ["Add", ["output"]]
    assert ["casts", "0 \u2192 1"] in data["figures"]


def test_names_cannot_leave_the_data(castsmith: Command, tmp_path: Path) -> None:
    text = report(castsmith, hostile_model(tmp_path / "a.onnx")).read_text()
    assert text.count("<script") == 2
    assert HOSTILE not in text
    assert data_of(text)["items"][0]["place"].startswith(HOSTILE)
    assert html_text({"title": "/*SCRIPT*/"}).count('"use strict"') == 1


def test_many_rewrites_are_a_small_file(castsmith: Command, tmp_path: Path) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 300))
    assert page.stat().st_size < 600_000
    assert len([item for item in data_of(page.read_text())["items"] if item["kind"] == "rewrite"]) >= 600


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
    assert "witness: 1000.0" in refused[0]["reason"]


def test_diff_as_html(castsmith: Command, tmp_path: Path) -> None:
    source = write_model(tmp_path / "a.onnx", MIXED)
    report(castsmith, source)
    ended = castsmith("diff", source, tmp_path / "out.onnx", "--format", "html")
    assert ended.code == 1
    assert {item["rule"] for item in data_of(ended.out)["items"]} == {"node-added", "operand-changed"}
    assert castsmith("diff", source, source, "--format", "html").code == 0


@pytest.fixture
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs Chromium and its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"):
        options.add_argument(f"--{word}")
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


def opened(browser: Any, page: Path) -> float:
    """Open the page; the seconds until it is ready."""
    start = time.perf_counter()
    browser.get(page.as_uri())
    while browser.execute_script("return document.body.dataset.ready") != "yes":
        assert time.perf_counter() - start < 120
        time.sleep(0.01)
    return time.perf_counter() - start


def test_in_chromium_search_filter_and_expand(castsmith: Command, tmp_path: Path, browser: Any) -> None:
    opened(browser, report(castsmith, chain_of_casts(tmp_path / "a.onnx", 120)))
    search = browser.find_element("id", "search")
    assert len(browser.find_elements("css selector", ".row")) == 100
    choose(browser, "kind", "rewrite")
    search.send_keys("layer.119/dequantize")
    (row,) = rows(browser, 1)
    row.send_keys("\n")
    assert row.get_attribute("aria-expanded") == "true"
    assert len(browser.find_elements("css selector", ".picture svg")) == 2
    assert browser.find_elements("css selector", "svg .box.cast")
    row.send_keys("\n")
    assert not browser.find_elements("css selector", ".body")


def rows(browser: Any, count: int) -> list[Any]:
    """The rows, once there are so many."""
    deadline = time.perf_counter() + 60
    while len(browser.find_elements("css selector", ".row")) != count and time.perf_counter() < deadline:
        time.sleep(0.02)
    return browser.find_elements("css selector", ".row")


def choose(browser: Any, name: str, text: str) -> None:
    options = browser.find_elements("css selector", f"#{name} option")
    next(option for option in options if option.text.startswith(text)).click()


def test_in_chromium_filters_by_kind_and_rule(castsmith: Command, tmp_path: Path, browser: Any) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 20))
    opened(browser, page)
    items = data_of(page.read_text())["items"]
    for kind in {item["kind"] for item in items}:
        choose(browser, "kind", kind)
        assert len(rows(browser, 20)) == sum(item["kind"] == kind for item in items)
    choose(browser, "kind", "everything")
    choose(browser, "group", "lower-Cast")
    assert len(rows(browser, 20)) == sum(item["rule"] == "lower-Cast" for item in items) == 20
    choose(browser, "group", "all rules")
    browser.find_element("css selector", ".rules button").click()
    first = browser.find_element("css selector", ".rules button").text
    assert {row.text for row in browser.find_elements("css selector", ".row .tag")} == {first}


def test_in_chromium_by_keyboard_alone(castsmith: Command, tmp_path: Path, browser: Any) -> None:
    opened(browser, report(castsmith, chain_of_casts(tmp_path / "a.onnx", 3)))

    def press(key: str) -> None:
        browser.switch_to.active_element.send_keys(key)

    press("j")
    press("j")
    press("k")
    press("j")
    focused = browser.switch_to.active_element
    assert browser.find_elements("css selector", ".row").index(focused) == 1
    press("\n")
    assert focused.get_attribute("aria-expanded") == "true"
    press("/")
    assert browser.switch_to.active_element.get_attribute("id") == "search"
    press("layer.2/dequantize")
    press("\ue00c")
    assert browser.switch_to.active_element.tag_name == "body"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_in_chromium_every_size_and_scheme(
    castsmith: Command, tmp_path: Path, browser: Any, scheme: str, width: int
) -> None:
    """Nothing is wider than the window, the text stands out, and there is nothing on the console, or from the net."""
    preference = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", preference)
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    opened(browser, report(castsmith, chain_of_casts(tmp_path / "a.onnx", 5)))
    for row in browser.find_elements("css selector", ".row"):
        row.click()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    style = "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
    ink, ground = (sum(map(int, re.findall(r"\d+", text)[:3])) for text in browser.execute_script(style))
    assert (ink < ground) == (scheme == "light")
    assert abs(ink - ground) > 450
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []


def test_in_chromium_hostile_names_are_only_text(castsmith: Command, tmp_path: Path, browser: Any) -> None:
    opened(browser, report(castsmith, hostile_model(tmp_path / "a.onnx")))
    for row in browser.find_elements("css selector", ".row"):
        row.click()
    assert browser.title.endswith("out.onnx")
    assert not browser.find_elements("css selector", "img")
    assert HOSTILE in browser.find_element("css selector", ".place").text


def test_in_chromium_5000_rewrites_open_and_filter_within_a_second(
    castsmith: Command, tmp_path: Path, browser: Any
) -> None:
    page = report(castsmith, chain_of_casts(tmp_path / "a.onnx", 2500))
    assert page.stat().st_size < 10_000_000
    opened(browser, page)
    took = browser.execute_script(
        "const start = performance.now(), box = document.getElementById('search'); box.value = 'layer.2499';"
        "box.form.requestSubmit(); document.body.offsetHeight; return performance.now() - start"
    )
    assert took < 1000
    assert opened(browser, page) < 5
