"""Deferred modules: found while their host is imported, and run when something of them is first used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, reload
from pathlib import Path
from threading import Event
from types import ModuleType

import pytest

from castsmith.deferred import SELDOM_USED, defer

_NAMES = [name for names in SELDOM_USED.values() for name in names]
_CONTENTS = (
    "import json, sys\n"
    "from importlib import import_module\n"
    f"found = {{name: import_module(name) for name in {_NAMES}}}\n"
    "print(json.dumps([[name, sys.modules[name] is each, sorted(vars(each)), sorted(dir(each))]"
    " for name, each in found.items()]))\n"
)


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_modules_of_onnx_are_deferred_and_complete_once_used() -> None:
    ordinary = json.loads(_run(f"import onnx_ir\n{_CONTENTS}"))
    deferred = (
        "import sys, castsmith, onnx, onnx_ir\n"
        f"assert not [name for name in {_NAMES} if type(sys.modules[name]) is type(sys)]\n"
        "assert not [each for each in sys.meta_path if type(each).__module__ == 'castsmith.deferred']\n"
    )
    assert [name for name, *_ in ordinary] == _NAMES
    assert json.loads(_run(deferred + _CONTENTS)) == ordinary


@pytest.mark.parametrize("first", ["onnx", "onnx_ir"])
def test_modules_imported_before_castsmith_are_ordinary(first: str) -> None:
    code = (
        f"import sys, {first}, castsmith, onnx\nprint(*[type(sys.modules[name]) is type(sys) for name in {_NAMES[:9]}])"
    )
    assert set(_run(code).split()) == {"True"}


@pytest.fixture
def guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules: a package `hosted` that imports its modules, each of which gets a case of its own."""
    (folder := tmp_path / "hosted").mkdir()
    (folder / "__init__.py").write_text(
        "from hosted import used, gate, wrong\nimport hosted.doubled\nimport hosted.doubled\n"
    )
    (folder / "used.py").write_text('"""A text."""\nfrom hosted import doubled\nvalue = doubled.value + 1\n')
    (folder / "doubled.py").write_text("from hosted import used\nvalue = 1\n")
    (folder / "gate.py").write_text("from hosted import events\nevents[0].set()\nevents[1].wait(60)\nvalue = 1\n")
    (folder / "wrong.py").write_text("raise LookupError('wrong')\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("used", "doubled", "gate", "wrong")
    defer({"hosted": [f"hosted.{name}" for name in (*names, "late")]})
    yield folder
    for name in [each for each in sys.modules if each.partition(".")[0] == "hosted"]:
        del sys.modules[name]


def _state(hosted: ModuleType) -> list[str]:
    return [name for name in ("used", "doubled", "gate", "wrong") if type(getattr(hosted, name)) is ModuleType]


@pytest.mark.usefixtures("guests")
def test_the_code_of_a_module_runs_once_when_it_is_used() -> None:
    hosted = import_module("hosted")
    assert not _state(hosted)
    assert import_module("hosted.used").__name__ == "hosted.used"
    assert not _state(hosted)
    assert (hosted.used.value, hosted.used.__doc__) == (2, "A text.")
    assert _state(hosted) == ["used", "doubled"]
    assert hosted.used is sys.modules["hosted.used"]
    with pytest.raises(AttributeError, match=r"'hosted\.used' has no attribute 'other'"):
        hosted.used.other  # noqa: B018


@pytest.mark.usefixtures("guests")
def test_what_is_set_before_the_first_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = import_module("hosted")
    monkeypatch.setattr(hosted.doubled, "value", 7)
    assert hosted.used.value == 8
    del hosted.used.value
    assert not hasattr(hosted.used, "value")


@pytest.mark.usefixtures("guests")
def test_an_error_in_a_module_is_raised_at_each_use() -> None:
    hosted = import_module("hosted")
    for _ in range(2):
        with pytest.raises(LookupError, match="wrong"):
            hosted.wrong.value  # noqa: B018


@pytest.mark.usefixtures("guests")
def test_threads_wait_for_the_code_of_a_module() -> None:
    hosted = import_module("hosted")
    vars(hosted)["events"] = entered, leave = Event(), Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: hosted.gate.value)
        assert entered.wait(60)
        second = pool.submit(lambda: hosted.gate.value)
        leave.set()
        assert (first.result(60), second.result(60)) == (1, 1)


def test_a_module_imported_later_is_not_deferred(guests: Path) -> None:
    import_module("hosted")
    (guests / "late.py").write_text("value = 3\n")
    assert type(import_module("hosted.late")) is ModuleType


@pytest.mark.usefixtures("guests")
def test_a_module_may_be_reloaded_before_it_is_used() -> None:
    hosted = import_module("hosted")
    assert reload(hosted.doubled) is hosted.doubled
    assert (_state(hosted), hosted.doubled.value) == (["doubled"], 1)
