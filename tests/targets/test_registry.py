"""The kernels that a target's registry lists are those of the installed runtime."""

from __future__ import annotations

import pytest

from castsmith.targets.registry import Kernel, known_registry
from tests.targets.registry import FILE, installed, text_of
from tests.versions import ONNXRUNTIME


@pytest.mark.skipif(ONNXRUNTIME != (1, 32), reason="the registry is that of ONNX Runtime 1.32")
def test_the_registry_is_that_of_the_installed_runtime() -> None:
    """If not: python -m tests.targets.registry --write."""
    assert FILE.read_text(encoding="utf-8") == text_of(installed())


def test_a_kernel_without_a_last_opset_is_for_one_definition() -> None:
    types = {"T": frozenset({"float"})}
    assert [Kernel(13, 0, types).is_for(since) for since in (12, 13, 14)] == [False, True, False]
    assert [Kernel(13, 15, types).is_for(since) for since in (12, 13, 14, 16)] == [False, True, True, False]
    assert Kernel(13, 0, types).takes([("T", "float"), ("U", "int64")])
    assert not Kernel(13, 0, types).takes([("T", "double")])


def test_the_names_of_registries() -> None:
    assert [known_registry(name) for name in ("", FILE.stem)] == ["", FILE.stem]
    for name in ("none", FILE.name):
        with pytest.raises(ValueError, match=f"^unknown registry '{name}'; expected .*{FILE.stem}"):
            known_registry(name)
