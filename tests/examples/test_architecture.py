"""ARCHITECTURE.md names modules, functions, files and packages that exist, and the functions of its walk run."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType

import onnx
import onnx.helper
import onnx.parser

from castsmith.cli.main import main
from tests.sampling import check_all

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
PICTURE = (ROOT / "docs/pictures/architecture.svg").read_text()
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
PACKAGES = [name for name in SETTINGS["packages"] if name.partition(".")[0] == "castsmith"]
NAMES = sorted({*re.findall(r"`(castsmith(?:\.\w+)*)`", PAGE), *re.findall(r"castsmith(?:\.\w+)+", PICTURE)})
PATHS = sorted(set(re.findall(r"`([\w/]+/[\w./]+|\w+\.toml)`", PAGE)))
WALK = re.findall(r"^\| [\w ]+ \| `(castsmith[\w.]+)` \|", PAGE.partition("## The walk of one value")[2], re.MULTILINE)


def named(name: str) -> object:
    """The module, class or function of that dotted name."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[count:], module)
    raise AssertionError(name)


def test_each_name_is_there() -> None:
    check_all(named, NAMES)


def test_each_file_and_folder_is_there() -> None:
    assert [path for path in PATHS if not (ROOT / path).exists()] == []


def test_each_package_is_in_the_table() -> None:
    table = PAGE.partition("## The packages")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(PACKAGES)


def test_each_package_says_what_is_inside() -> None:
    assert [name for name in PACKAGES if not (import_module(name).__doc__ or "").strip()] == []


def test_the_walk_runs_through_each_function_that_the_page_names(tmp_path: Path) -> None:
    text = re.findall(r'parse_model\("""(.*?)"""\)', PAGE, re.DOTALL)
    (source,) = text
    model = onnx.parser.parse_model(source)
    model.graph.initializer.append(onnx.helper.make_tensor("w", 17, [2], bytes([0x3C, 0xFE]), raw=True))
    onnx.save_model(model, tmp_path / "walk.onnx")
    called = set[CodeType]()

    def note(frame: FrameType, event: str, argument: object) -> None:
        del argument
        if event == "call":
            called.add(frame.f_code)

    words = ["optimize", tmp_path / "walk.onnx", "-o", tmp_path / "out.onnx", "--target", "onnxruntime-android"]
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        code = main([str(word) for word in words])
    finally:
        sys.setprofile(before)
    assert code == 0
    assert len(WALK) > 10
    steps = (*WALK, *re.findall(r"castsmith\.\w+\.[\w.]+", PICTURE))
    functions = {name: thing for name in steps if inspect.isfunction(thing := named(name))}
    assert [name for name, function in functions.items() if inspect.unwrap(function).__code__ not in called] == []
