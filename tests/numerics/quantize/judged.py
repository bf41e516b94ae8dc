"""The judgement of one node, in the forms that tests compare."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from castsmith.numerics.quantize.status import judge_dequantize, judge_quantize
from castsmith.numerics.status import Finding


def quantize_status(*operands: Any, **settings: Any) -> NDArray[np.uint8]:
    return judge_quantize(*operands, **settings).status()


def dequantize_status(*operands: Any, **settings: Any) -> NDArray[np.uint8]:
    return judge_dequantize(*operands, **settings).status()


def quantize_reason(*operands: Any, **settings: Any) -> Finding | None:
    return judge_quantize(*operands, **settings).finding()


def dequantize_reason(*operands: Any, **settings: Any) -> Finding | None:
    return judge_dequantize(*operands, **settings).finding()
