"""Records the common type that a library gives to every pair of element types, at every rank and with Python numbers.

    python tests/numerics/promotion/record_library_promotion.py torch > tests/numerics/promotion/torch_promotion.txt

and so on for numpy, jax, tensorflow and tensorflow-safe; each needs its library. The recorded text is what
`test_libraries.py` compares with. A block is a line `lhs-rank rhs-rank` for each setting that has the table
below it: a row for each left and a column for each right type, `-` where the library refuses or has no such type. The
right side `number` is a Python number: True, 1 and 1.5.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

INTEGERS = "bool int2 uint2 int4 uint4 int8 uint8 int16 uint16 int32 uint32 int64 uint64"
NARROW = "float4_e2m1fn float6_e2m3fn float6_e3m2fn"
FLOAT8 = "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
NAMES: Sequence[str] = f"{INTEGERS} {NARROW} {FLOAT8} float16 bfloat16 float32 float64".split()
NUMBERS = {"True": True, "1": 1, "1.5": 1.5}

Make = Callable[[str, int], Any]
Ask = Callable[[Any, Any], str]


def of_torch() -> tuple[str, Make, Ask]:
    import torch

    def make(name: str, rank: int) -> Any:
        return torch.empty([2] * rank, dtype=getattr(torch, name))

    return torch.__version__.split("+")[0], make, lambda a, b: str(torch.result_type(a, b)).removeprefix("torch.")


def of_numpy() -> tuple[str, Make, Ask]:
    import numpy as np

    return np.__version__, lambda name, rank: np.zeros([2] * rank, name), lambda a, b: str(np.result_type(a, b))


def of_jax() -> tuple[str, Make, Ask]:
    os.environ["JAX_ENABLE_X64"] = "1"
    import jax
    import jax.numpy as jnp

    def make(name: str, rank: int) -> Any:
        return jax.ShapeDtypeStruct([2] * rank, getattr(jnp, name if name != "bool" else "bool_"))

    return jax.__version__, make, lambda a, b: str(jnp.result_type(a, b))


def of_tensorflow(mode: str) -> tuple[str, Make, Ask]:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf
    from tensorflow.python.framework import flexible_dtypes

    tf.experimental.numpy.experimental_enable_numpy_behavior(dtype_conversion_mode=mode)

    def make(name: str, rank: int) -> Any:
        return tf.zeros([2] * rank, getattr(tf.dtypes, name))

    return tf.__version__, make, lambda a, b: flexible_dtypes.result_type(a, b)[0].name


LIBRARIES: dict[str, Callable[[], tuple[str, Make, Ask]]] = {
    "torch": of_torch,
    "numpy": of_numpy,
    "jax": of_jax,
    "tensorflow": lambda: of_tensorflow("all"),
    "tensorflow-safe": lambda: of_tensorflow("safe"),
}


def operand(make: Make, name: str, rank: int) -> Any:
    try:
        return make(name, rank)
    except Exception:
        return None


def answer(ask: Ask, lhs: Any, rhs: Any) -> str:
    if lhs is None or rhs is None:
        return "-"
    try:
        name = ask(lhs, rhs)
    except Exception:
        return "-"
    return name if name in NAMES else "-"


def table(columns: Sequence[str], cells: Callable[[str, str], str]) -> str:
    rows = [[name, *(cells(name, column) for column in columns)] for name in NAMES]
    widths = [max(map(len, column)) for column in zip(["", *columns], *rows, strict=True)]
    lines = [["", *columns], *rows]
    return "\n".join(" ".join(f"{c:{w}}" for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def main(library: str) -> None:
    version, make, ask = LIBRARIES[library]()
    operands = {(name, rank): operand(make, name, rank) for name in NAMES for rank in (0, 1)}
    blocks: dict[str, list[str]] = {}
    for left, right in itertools.product((0, 1), repeat=2):
        text = table(NAMES, lambda a, b: answer(ask, operands[a, left], operands[b, right]))  # noqa: B023
        blocks.setdefault(text, []).append(f"{left} {right}")
    for left in (0, 1):
        text = table(list(NUMBERS), lambda a, b: answer(ask, operands[a, left], NUMBERS[b]))  # noqa: B023
        blocks.setdefault(text, []).append(f"{left} number")
    print(library, version)
    for text, settings in blocks.items():
        print("", *settings, text, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
