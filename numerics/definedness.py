"""How firmly the ONNX standard fixes one element of a result."""

from __future__ import annotations

import enum


class Definedness(enum.IntEnum):
    """DEFINED: the schema fixes the bits. DISPUTED: it leaves room, or runtimes disagree. UNDEFINED: it says so.

    The order is by trouble, so that the maximum over a tensor is the standing of the whole.
    """

    DEFINED = 0
    DISPUTED = 1
    UNDEFINED = 2
