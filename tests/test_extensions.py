"""Unusable extensions are one plain sentence that names the package and the entry point."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest

from castsmith.numerics import extensions
from castsmith.numerics.extensions import ExtensionError, extension
from tests.cli.conftest import castsmith
from tests.cli.helpers import CLEAN, Command, is_one_sentence, write_model
from tests.packaging.installed import install

__all__ = ["castsmith"]
TWICE = """<ir_version: 10, opset_import: ["": 21, "com.example": 1]>
g (float[4] x) => (float[4] y) { y = com.example.Twice (x) }"""
MODULE = """
from dataclasses import dataclass
from onnx_ir.passes import InPlacePass, PassResult
WRONG_NAME = {"name": "other"}
NUMBER = 1
MISSING = "/nowhere/acme.json"

def raises(node, build):
    raise KeyError("scale")

def gives_text(node, build):
    return "Mul"

@dataclass(frozen=True)
class Needs(InPlacePass):
    how: str

    def call(self, model):
        return PassResult(model, False)
"""
OPTIMIZE = ("optimize", "{model}", "-o", "{out}")
SHOW, PROMOTE = ("targets", "show", "bad"), ("dev", "promote", "i8", "--promotion", "bad")
RUN, LOWER = (*OPTIMIZE, "--passes", "bad"), (*OPTIMIZE, "--target", "iree")
BAD = {
    "a module that is not there": ("targets", "nowhere:TARGET", SHOW, "ModuleNotFoundError"),
    "a name that is not there": ("targets", "added_by_test:NONE", SHOW, "AttributeError"),
    "no target": ("targets", "added_by_test:NUMBER", SHOW, "neither a Target nor"),
    "no file": ("targets", "added_by_test:MISSING", SHOW, "No such file"),
    "no promotion": ("promotions", "added_by_test:NUMBER", PROMOTE, "PromotionRules"),
    "no promotion file": (
        "promotions",
        "added_by_test:MISSING",
        ("dev", "promote", "i8", "--promotion", "bad"),
        "No such file",
    ),
    "no pass": ("passes", "added_by_test:NUMBER", RUN, "not a subclass of onnx_ir.passes"),
    "an option without default": (
        "passes",
        "added_by_test:Needs",
        (*OPTIMIZE, "--passes", "bad"),
        "its option how has no",
    ),
    "no function": ("lowerings", "added_by_test:NUMBER", LOWER, "it is not a function"),
    "a lowering that raises": (
        "lowerings",
        "added_by_test:raises",
        (*OPTIMIZE, "--target", "iree"),
        "KeyError: 'scale'",
    ),
    "a lowering that gives text": (
        "lowerings",
        "added_by_test:gives_text",
        (*OPTIMIZE, "--target", "iree"),
        "returned a str",
    ),
}


@pytest.mark.parametrize("how", BAD)
def test_a_bad_one_is_a_sentence(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    group, value, words, text = BAD[how]
    name = "com.example.Twice" if group == "lowerings" else "bad"
    install(monkeypatch, tmp_path / "installed", "acme-tools", {f"castsmith.{group}": {name: value}})
    (tmp_path / "installed" / "added_by_test.py").write_text(MODULE)
    model, out = write_model(tmp_path / "a.onnx", TWICE), tmp_path / "b.onnx"
    ended = castsmith(*(word.format(model=model, out=out) for word in words))
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert f"the entry point {name} = {value} of castsmith.{group} in the package acme-tools 1.0" in ended.err
    assert text in ended.err
    assert not out.exists()


NAMED = {
    "added_by_test:Tidy": "",
    "added_by_test:Tidy{name=other}": "",
    "added_by_test:Tidy{nmae=other}": "has no option 'nmae'; did you mean 'name'?",
    "added_by_test:NONE": "the module 'added_by_test' has no 'NONE'",
    "added_by_test:NUMBER": "not a subclass of onnx_ir.passes",
    "added_by_test:Needs": "its option how has no default",
    "added_by_tset:Tidy": "there is no module 'added_by_tset' on Python's path; install it, or add its folder to",
    "imports_other:Tidy": "ModuleNotFoundError: No module named 'nowhere'",
    "simplify-cast": "unknown pass 'simplify-cast'; did you mean 'simplify-casts'?",
}
TIDY = """
@dataclass(frozen=True)
class Tidy(InPlacePass):
    name: str = "tidy"

    def call(self, model):
        model.graph.name = self.name
        return PassResult(model, True)
"""


@pytest.mark.parametrize("spec", NAMED)
def test_a_pass_by_its_module(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    """Only what is on Python's path is found, and the current folder is not."""
    folder, out = tmp_path / "folder", tmp_path / "b.onnx"
    folder.mkdir()
    (folder / "added_by_test.py").write_text(MODULE + TIDY)
    (folder / "imports_other.py").write_text("import nowhere")
    words = ("optimize", write_model(tmp_path / "a.onnx", CLEAN), "-o", out, "--passes", spec)
    monkeypatch.chdir(folder)
    ended = castsmith(*words)
    assert ended.code == 2
    assert is_one_sentence(ended.err)
    monkeypatch.syspath_prepend(folder)
    for module in ("added_by_test", "imports_other"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    ended = castsmith(*words)
    assert (ended.code, NAMED[spec] in ended.err) == (2 if NAMED[spec] else 0, True)
    assert is_one_sentence(ended.err or "castsmith: .\n")
    assert not out.exists() or onnx.load(out).graph.name == ("other" if "other" in spec else "tidy")


def test_two_packages_with_one_name(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("acme-tools", "acme-more"):
        install(monkeypatch, tmp_path / package, package, {"castsmith.targets": {"npu": "sys:path"}})
    ended = castsmith("targets", "show", "npu")
    assert ended.code == 2
    assert is_one_sentence(ended.err)
    assert "acme-more 1.0 and acme-tools 1.0 both add 'npu'" in ended.err.replace(
        "acme-tools 1.0 and acme-more 1.0", "acme-more 1.0 and acme-tools 1.0"
    )


@pytest.mark.parametrize("command", ["targets", "passes"])
def test_a_list_shows_the_good_ones(
    castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    before = castsmith(command)
    install(monkeypatch, tmp_path / "installed", "acme-tools", {f"castsmith.{command}": {"bad": "sys:maxsize"}})
    after = castsmith(command)
    assert (before.code, before.err) == (0, "")
    assert (after.code, after.out) == (2, before.out)
    assert is_one_sentence(after.err)


def test_an_unknown_name_lists_what_packages_add(
    castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_points = {f"castsmith.{group}": {"acme-thing": "sys:path"} for group in ("targets", "promotions", "passes")}
    install(monkeypatch, tmp_path / "installed", "acme-tools", entry_points)
    model = write_model(tmp_path / "a.onnx", CLEAN)
    for words in (
        ("check", model, "--target", "none"),
        ("dev", "promote", "i8", "--promotion", "none"),
        ("optimize", model, "-o", tmp_path / "b.onnx", "--passes", "none"),
    ):
        assert "acme-thing" in castsmith(*words).err


def test_what_castsmith_has_itself_stays(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points = {
        "castsmith.targets": {"iree": "sys:maxsize"},
        "castsmith.promotions": {"torch": "sys:maxsize"},
        "castsmith.passes": {"fold-constants": "sys:maxsize"},
    }
    install(monkeypatch, tmp_path / "installed", "acme-tools", entry_points)
    for words in (
        ("targets", "show", "iree"),
        ("targets",),
        ("dev", "promote", "i8", "--promotion", "torch"),
        ("passes",),
    ):
        assert castsmith(*words).code == 0


def test_packages_are_looked_through_only_when_asked_for(
    castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(extensions, "_found", refuse)
    model = write_model(tmp_path / "a.onnx", CLEAN)
    named = ("--target", "onnxruntime-cpu")
    assert castsmith("check", model, *named).code == 0
    assert castsmith("optimize", model, "-o", tmp_path / "b.onnx", *named, "--promotion", "torch").code == 0
    assert castsmith("promote", "i8", "i16").code == 0
    assert castsmith("optimize", model, "-o", tmp_path / "b.onnx", "--target", "no-such").code == 2


def test_an_object_that_fits_is_given() -> None:
    assert extension("castsmith.targets", "no-such", str) is None
    assert issubclass(ExtensionError, Exception)
