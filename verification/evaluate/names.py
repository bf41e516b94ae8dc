"""The names of the engines, and the default limit of memory."""

from __future__ import annotations

from typing import Literal

EngineName = Literal["onnxruntime", "openvino", "reference"]
"""The engines that run all operators except conversions."""

MEMORY = 1 << 11
"""MiB that a comparison may take, constants apart."""
