"""The names of the engines."""

from __future__ import annotations

from typing import Literal

EngineName = Literal["onnxruntime", "openvino", "reference"]
"""The engines that run all operators except conversions."""
