"""castsmith.diff: what it takes, what is true of its result, and how a notebook shows it."""

from __future__ import annotations

from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.numerics.errors import OptionError
from castsmith.verification.diff.models import rewrites_between

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N] x) => (float[N] z) {
    a = Relu (x)
    z = Neg (a)
}"""
OTHER = TEXT.replace("Neg", "Abs")


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


class Words(HTMLParser):
    """The tags that are open, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert [name for name, _ in attrs if name != "style"] == []
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_it_is_true_exactly_if_the_models_differ() -> None:
    assert not castsmith.diff(parsed(TEXT), parsed(TEXT.replace("a = ", "b = ").replace("(a)", "(b)")))
    found = castsmith.diff(parsed(TEXT), parsed(OTHER))
    assert found
    assert isinstance(found, castsmith.ModelDiff)
    (change,) = found.changes
    assert isinstance(change, castsmith.Change)
    assert change.kind == "operator-changed"
    assert (found.nodes_same, found.nodes_changed) == (1, 1)


def test_each_side_is_a_path_a_proto_or_a_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save_model(parsed(TEXT), path)
    forms = (path, str(path), parsed(TEXT), onnx_ir.from_proto(parsed(TEXT)), castsmith.load(path))
    for form in forms:
        assert not castsmith.diff(form, path)
        assert castsmith.diff(form, parsed(OTHER)) == castsmith.diff(parsed(TEXT), parsed(OTHER))


def test_the_models_are_left_as_they_are() -> None:
    models = [onnx_ir.from_proto(parsed(text)) for text in (TEXT, OTHER)]
    before = [onnx_ir.to_proto(model).SerializeToString() for model in models]
    castsmith.diff(*models)
    assert [onnx_ir.to_proto(model).SerializeToString() for model in models] == before


def test_everything_counts_what_nothing_uses() -> None:
    model = parsed(TEXT)
    model.graph.initializer.append(onnx.helper.make_tensor("unused", onnx.TensorProto.FLOAT, [1], [1.0]))
    assert not castsmith.diff(parsed(TEXT), model)
    assert castsmith.diff(parsed(TEXT), model, everything=True)


def test_the_summary_is_one_sentence() -> None:
    assert castsmith.diff(parsed(TEXT), parsed(TEXT)).summary() == "the same: 2 nodes and everything else"
    assert (
        castsmith.diff(parsed(TEXT), parsed(OTHER)).summary().startswith("1 difference; nodes: 1 the same, 1 changed")
    )


def test_a_notebook_shows_it_with_every_name_escaped() -> None:
    name = "<script>&amp;'\""
    model = parsed(OTHER)
    model.graph.node[1].name = name
    found = castsmith.diff(parsed(TEXT), model)
    page = Words(found._repr_html_())  # pyright: ignore[reportPrivateUsage]
    assert not page.open
    assert page.seen == {"p", "b", "details", "summary", "div", "table", "tr", "th", "td"}
    assert page.text[0] == found.summary()
    assert found.changes[0].after in page.text
    same = castsmith.diff(parsed(TEXT), parsed(TEXT))
    assert Words(same._repr_html_()).seen == {"p", "b"}  # pyright: ignore[reportPrivateUsage]


def test_a_notebook_shows_the_first_of_many_changes() -> None:
    def model(op_type: str) -> onnx.ModelProto:
        values = [f"v{index}" for index in range(301)]
        nodes = [onnx.helper.make_node(op_type, [a], [b]) for a, b in pairwise(values)]
        ends = [onnx.helper.make_tensor_value_info(v, onnx.TensorProto.FLOAT, [1]) for v in (values[0], values[-1])]
        return onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:]))

    found = castsmith.diff(model("Relu"), model("Neg"))
    text = found._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert text.count("<tr>") == 201
    assert f"and {len(found.changes) - 200} more" in text


def test_neighbors_past_an_operand_that_is_left_out() -> None:
    text = TEXT.replace("x)", "x, float lo, float hi)", 1).replace("Neg (a)", "Clip (a, , hi)")
    for ours, theirs in ((text, text.replace(", ,", ", lo,")), (text.replace(", ,", ", lo,"), text), (text, text)):
        found = castsmith.diff(parsed(ours), parsed(theirs.replace("Relu", "Abs")))
        assert [c.kind for c in found.changes].count("operator-changed") == 1
        assert (found.nodes_added, found.nodes_removed) == (0, 0)


def test_entries_of_training_information_are_counted() -> None:
    for count, expected in ((1, "1 entry"), (2, "2 entries")):
        model = parsed(TEXT)
        for _ in range(count):
            model.training_info.add().algorithm.name = "a"
        (change,) = castsmith.diff(parsed(TEXT), model).changes
        assert (change.kind, change.before) == ("training-changed", "none")
        digest = sha256(b"".join(info.SerializeToString() for info in model.training_info)).hexdigest()
        assert change.after == f"{expected} (SHA-256 {digest[:12]})"


def test_what_a_pass_without_records_changed() -> None:
    rows = [
        (TEXT, OTHER, "z = Neg (a)  # (float) -> float[N]", "z = Abs (a)  # (float) -> float[N]", "g: z (Neg)"),
        (TEXT, TEXT.replace(": 21", ": 20"), "21", "20", "g"),
        (TEXT, TEXT.replace("z = Neg (a)", "z = Identity (a)"), "z = Neg (a)  # (float) -> float[N]",
         "z = Identity (a)  # (float) -> float[N]", "g: z (Neg)"),
    ]  # fmt: skip
    for ours, theirs, before, after, site in rows:
        models = [onnx_ir.from_proto(parsed(text)) for text in (ours, theirs)]
        (rewrite,) = rewrites_between(models[0], models[1], "mine")
        assert (str(rewrite.before), str(rewrite.after), str(rewrite.site)) == (before, after, site)
        assert (rewrite.pass_name, rewrite.effect, rewrite.site.graph) == ("mine", castsmith.Effect.UNKNOWN, "g")


def test_everything_is_true_or_false() -> None:
    wrong: Any = 2
    with pytest.raises(OptionError, match="everything"):
        castsmith.diff(parsed(TEXT), parsed(TEXT), everything=wrong)
