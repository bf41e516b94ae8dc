"""Passes by name: their options as text, classes of other packages, what runs with a target; the doors of lowering."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx_ir
import pytest
from onnx_ir.passes import InPlacePass, PassResult

from castsmith.lowering.registry import (
    ON_REQUEST,
    PASSES,
    added_passes,
    make_pass,
    name_of,
    needs_target,
    option_names,
    pass_class,
    pass_name,
    summary,
)
from castsmith.numerics.errors import OptionError
from castsmith.numerics.extensions import ExtensionError
from castsmith.targets.target import load_target
from tests.packaging.installed import install

CPU = load_target("onnxruntime-cpu")


def test_every_pass_is_made_with_its_defaults() -> None:
    for name in PASSES:
        assert pass_name(name) == name
        assert pass_name(f" {name}{{}} ") == name
        instance = make_pass(name, {"target": CPU, "nobody_knows": 1})
        assert type(instance) is pass_class(name)
        assert name_of(instance) == name_of(f"{name}{{}}") == name
        assert summary(name)
        assert not summary(name).startswith(name)
        assert needs_target(name) == (name not in ON_REQUEST and PASSES[name].startswith("castsmith.lowering."))
        if needs_target(name):
            with pytest.raises(OptionError, match=f"{name} needs a target"):
                make_pass(name, {"target": None})
        else:
            make_pass(name, {})


def value(spec: str, option: str, **settings: Any) -> Any:
    return getattr(make_pass(spec, {"target": CPU, **settings}), option)


def test_options_in_text_override_settings() -> None:
    assert value("fold-constants", "max_growth", max_growth=5) == 5
    assert value("fold-constants{max_growth=7}", "max_growth", max_growth=5) == 7
    assert value("fold-constants{max_growth=7 fold_as=onnxruntime}", "max_growth") == 7
    name, flag = "insert-promote-types", "promote_unsafe"
    for text, meant in {"true": True, "TRUE": True, "1": True, "": True, "false": False, "0": False}.items():
        assert value(f"{name}{{{flag}={text}}}", flag) is meant
    assert value(f"{name}{{{flag}}}", flag) is True
    target = f"{name}{{u64_integer_promotion_target=f64}}"
    assert value(target, "u64_integer_promotion_target") is onnx_ir.DataType.DOUBLE
    assert value(f"{name}{{library=torch}}", "library") == "torch"
    assert option_names(name)[0] == flag
    assert "target" not in option_names("lower-float8")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("fold-constant", "unknown pass 'fold-constant'; did you mean 'fold-constants'?"),
        ("zzz", "unknown pass 'zzz'; expected "),
        ("fold-constants{max_grow=1}", "fold-constants has no option 'max_grow'; did you mean 'max_growth'?"),
        ("fold-constants{max_growth=one}", "invalid value 'one' for option max_growth of fold-constants."),
        ("insert-promote-types{promote_unsafe=yes}", "invalid value 'yes' for option promote_unsafe"),
        ("insert-promote-types{u64_integer_promotion_target=f99}", "'f99'"),
        ("fold-constants{max_growth=1", "unknown pass 'fold-constants{max_growth=1'"),
        ("not_there_at_all:Tidy", "there is no module 'not_there_at_all' on Python's path"),
        ("os.not_there:Tidy", "there is no module 'os.not_there'"),
        ("os:NONE", "the module 'os' has no 'NONE'"),
        ("os:path", "it is not a subclass of onnx_ir.passes.PassBase"),
        ("added_here:Needs", "its option how has no default"),
        ("added_here:Takes", "its option how has no default"),
    ],
)
def test_a_pass_that_cannot_be_made(spec: str, said: str, added_here: None) -> None:
    del added_here
    with pytest.raises((OptionError, ValueError)) as caught:
        make_pass(spec, {"target": CPU})
    assert said in str(caught.value)


def test_a_module_that_needs_another_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs_another.py").write_text("import not_there_either\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OptionError) as caught:
        make_pass("needs_another:Tidy", {})
    assert str(caught.value).startswith("the pass needs_another:Tidy cannot be used: ")
    assert "No module named 'not_there_either'" in str(caught.value)
    assert "PYTHONPATH" not in str(caught.value)


@dataclass(frozen=True)
class Tidy(InPlacePass):
    """Name the graph.

    More text.
    """

    name: str = "tidy"
    target: object = None

    def call(self, model: onnx_ir.Model) -> PassResult:
        return PassResult(model, False)


@dataclass(frozen=True)
class Plain(InPlacePass):
    name: str = "plain"

    def call(self, model: onnx_ir.Model) -> PassResult:
        return PassResult(model, False)


class Takes(InPlacePass):
    def __init__(self, how: str, *_: str, more: int = 1, **__: str) -> None:
        raise NotImplementedError

    def call(self, model: onnx_ir.Model) -> PassResult:
        return PassResult(model, False)


class Free(InPlacePass):
    def __init__(self, *_: str, more: int = 1, **__: str) -> None: ...

    def call(self, model: onnx_ir.Model) -> PassResult:
        return PassResult(model, False)


@pytest.fixture
def added_here(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("added_here")
    module.Tidy, module.Takes, module.Free, module.Plain = Tidy, Takes, Free, Plain
    module.Needs = dataclass_without_default()
    monkeypatch.setitem(sys.modules, "added_here", module)


def dataclass_without_default() -> type:
    @dataclass(frozen=True)
    class Without(InPlacePass):
        how: str

        def call(self, model: onnx_ir.Model) -> PassResult:
            return PassResult(model, False)

    return Without


def test_classes_by_module_and_by_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added_here: None
) -> None:
    del added_here
    assert make_pass("added_here:Tidy{name=other}", {"target": CPU}) == Tidy("other", CPU)
    assert needs_target("added_here:Tidy")
    assert not needs_target("added_here:Plain")
    assert isinstance(make_pass("added_here:Free", {}), Free)
    assert not needs_target("added_here:Free")
    assert option_names("added_here:Free") == []
    assert summary("added_here:Tidy") == "Name the graph."
    assert summary("lower-custom") == "Replace operators of other domains by the lowerings registered for them."
    before = added_passes()
    points = {"tidy": "added_here:Tidy", "broken": "added_here:Takes"}
    install(monkeypatch, tmp_path, "acme-passes", {"castsmith.passes": points})
    assert set(added_passes()) - set(before) == {"tidy", "broken"}
    assert make_pass("tidy{name=x}", {"target": CPU}) == Tidy("x", CPU)
    with pytest.raises(ExtensionError, match="its option how has no default"):
        make_pass("broken", {})
