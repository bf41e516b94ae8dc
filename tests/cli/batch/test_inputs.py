"""The models that arguments name, in order, and where the result of each belongs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from castsmith.cli.batch.inputs import _fixed_part, is_folder, means_many, models_of  # pyright: ignore[reportPrivateUsage]
from castsmith.ir.errors import ModelError
from castsmith.numerics.errors import OptionError
from tests.sampling import check_all

FILES = (
    *("b.onnx", "a.ONNX", "note.txt", ".hidden.onnx", "in/z.onnx", "in/y.onnx", "in/deep/x.onnx", "in/.git/h.onnx"),
    *("in/out/r.onnx", "other/w.onnx", "odd[1].onnx"),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "other")
    monkeypatch.chdir(tmp_path)


Named = list[tuple[str, str]]
DEEP = [(f"in/{name}", name) for name in ("y.onnx", "z.onnx", "deep/x.onnx", "out/r.onnx")]
ROWS: list[tuple[list[str], str | None, Named]] = [
    (["b.onnx"], None, [("b.onnx", "b.onnx")]),
    (["none.onnx"], None, [("none.onnx", "none.onnx")]),
    (["in"], None, DEEP),
    (["in"], "in/out", DEEP[:3]),
    (["in"], "in", DEEP),
    (["in/"], "elsewhere", DEEP),
    (["in/y.onnx", "in/deep/x.onnx"], None, [("in/y.onnx", "y.onnx"), ("in/deep/x.onnx", "deep/x.onnx")]),
    (["in/z.onnx", "in"], None, [("in/z.onnx", "z.onnx"), *(row for row in DEEP if "z.onnx" not in row[0])]),
    (["b.onnx", "b.onnx"], None, [("b.onnx", "b.onnx")] * 2),
    (["in", "other"], None, [*((file, file) for file, _ in DEEP), ("other/w.onnx", "other/w.onnx")]),
    (["in/*.onnx"], None, [("in/y.onnx", "y.onnx"), ("in/z.onnx", "z.onnx")]),
    (["*/z.onnx"], None, [("in/z.onnx", "in/z.onnx")]),
    (["in/d*"], None, [("in/deep/x.onnx", "deep/x.onnx")]),
    (["in/de**/*.onnx"], None, [("in/deep/x.onnx", "deep/x.onnx")]),
    (["**/x.onnx"], None, [("in/deep/x.onnx", "in/deep/x.onnx")]),
    (["in/deep/**"], None, [("in/deep/x.onnx", "x.onnx")]),  # once, though its folder matches too
    (["odd[1].onnx"], None, [("odd[1].onnx", "odd[1].onnx")]),  # a file of this name is no pattern
    (["-"], None, [("-", "-")]),
]


def require_models(words: list[str], outside: str | None, named: Named) -> None:
    assert models_of(words, outside=None if outside is None else Path(outside)) == named


def test_models_that_are_named() -> None:
    check_all(require_models, ROWS)
    assert models_of(["."])[:3] == [(f"./{name}", name) for name in ("a.ONNX", "b.onnx", "odd[1].onnx")]
    absolute = os.path.abspath("in/*.onnx")
    assert [below for _, below in models_of([absolute])] == ["y.onnx", "z.onnx"]
    with pytest.raises(ModelError, match=r"empty: a folder without \.onnx files"):
        models_of(["empty"])
    for pattern in ("no*.onnx", "empty/*"):
        with pytest.raises(OptionError, match="no file matches this pattern"):
            models_of([pattern])


def test_the_folder_before_the_first_special_character() -> None:
    """Of a pattern at the root it is the root, not the current folder."""
    rows = {"*.onnx": "", "in/*.onnx": "in", "a/b/*/c": "a/b", "/*.onnx": "/", "/in/*": "/in", "a[1]/b": ""}
    assert {pattern: _fixed_part(pattern.replace("/", os.sep)).replace(os.sep, "/") for pattern in rows} == rows


MANY: list[tuple[list[str], str | None, bool]] = [
    (["b.onnx"], None, False),
    (["b.onnx"], "out.onnx", False),
    (["b.onnx"], "-", False),
    (["-"], "out.onnx", False),
    (["odd[1].onnx"], None, False),
    (["b.onnx"], "new/", True),
    (["b.onnx"], "empty", True),
    (["b.onnx", "a.ONNX"], None, True),
    (["in"], None, True),
    (["*.onnx"], None, True),
    (["none*"], None, True),
]


def require_many(words: list[str], output: str | None, many: bool) -> None:
    assert means_many(words, output) is many


def test_what_means_many_models() -> None:
    check_all(require_many, MANY)
    Path("-").mkdir()
    assert not means_many(["-"])
    assert [is_folder(name) for name in ("./-", "new/", "in")] == [True] * 3
    assert [is_folder(name) for name in ("-", "new", "b.onnx")] == [False] * 3
