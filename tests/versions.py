"""The versions of installed packages, for tests of what one of them changed."""

from __future__ import annotations

from importlib.metadata import version


def _numbers(package: str) -> tuple[int, ...]:
    """The first two numbers of the version."""
    return tuple(int(part) for part in version(package).split(".")[:2])


ONNX = _numbers("onnx")
ONNXRUNTIME = _numbers("onnxruntime")
