"""The work of `optimize` on a graph of many small parts is counted, as times say little on a busy machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir
import pytest

import castsmith
from benchmarks.graph_speed import constants, deep_chain
from castsmith.cli.main import main
from castsmith.passes.core import session

BLOCKS = 20


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """Return a list that gets an element with each call of the function."""
    done, function = list[None](), getattr(owner, name)

    def wrapper(*arguments: Any, **settings: Any) -> Any:
        done.append(None)
        return function(*arguments, **settings)

    monkeypatch.setattr(owner, name, wrapper)
    return done


def test_types_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done = counted(monkeypatch, session, "infer_element_types")
    castsmith.optimize(constants(BLOCKS))
    assert len(done) == 1


@pytest.mark.parametrize(("make", "most"), [(constants, 36), (deep_chain, 38)])
def test_walks_over_the_graph(
    make: Callable[[int], onnx.ModelProto], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(make(BLOCKS), tmp_path / "a.onnx")
    done = counted(monkeypatch, onnx_ir.Graph, "__iter__")
    assert main(["optimize", str(tmp_path / "a.onnx"), "-o", str(tmp_path / "b.onnx")]) == 0
    assert len(done) <= most


def test_what_is_imported_when_it_is_used(tmp_path: Path) -> None:
    """To convert needs onnx and onnx_ir, with what they require themselves, numpy, ml_dtypes, networkx, lazy_loader."""
    onnx.save(constants(BLOCKS), tmp_path / "a.onnx")
    code = (
        "import sys; before = {*sys.modules}; import castsmith; assert 'onnx_ir' not in sys.modules\n"
        "castsmith.optimize; print({'onnx_ir', 'onnxscript', 'onnxruntime', 'networkx', 'rich'} & {*sys.modules})\n"
        f"castsmith.convert({str(tmp_path / 'a.onnx')!r}, to='float16').save({str(tmp_path / 'b.onnx')!r})\n"
        "loaded = {name.partition('.')[0] for name in {*sys.modules} - before}\n"
        "print(*sorted(loaded - sys.stdlib_module_names))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    needed = {"castsmith", "onnx", "onnx_ir", "google", "numpy", "ml_dtypes", "networkx", "lazy_loader"}
    theirs = {"sympy", "mpmath", "packaging", "typing_extensions"}
    first, _, loaded = ended.stdout.partition("\n")
    assert (first, ended.stderr) == ("{'onnx_ir'}", "")
    assert not set(loaded.split()) - needed - theirs
