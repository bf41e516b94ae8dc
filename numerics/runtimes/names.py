"""The names of runtimes."""

from __future__ import annotations

from typing import Literal

Runtime = Literal["onnxruntime", "reference"]
"""The runtimes whose Cast can be reproduced."""
