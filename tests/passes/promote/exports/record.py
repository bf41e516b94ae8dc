"""Exports, with PyTorch's dynamo exporter, modules whose mixed types it leaves as they are, with PyTorch's own results.

    python tests/passes/promote/exports/record.py      # needs torch and onnxscript

Writes NAME.onnx and NAME.npz (in0, in1 ...; out) beside itself, for `tests/passes/promote/test_promotion_exports.py`.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent
I32, I64, F32, F64, F16 = torch.int32, torch.int64, torch.float32, torch.float64, torch.float16


def number(dtype: torch.dtype, *values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


INTEGERS, OTHERS, FLOATS = number(I32, 1, -2, 3), number(I64, 4, 5, -6), number(F32, 0.5, 2.0, 3.0)
FLAGS, MORE_FLAGS = torch.tensor([True, False, True]), torch.tensor([True, True, False])

CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "stack_int32_int64": (lambda a, b: torch.stack([a, b]), (INTEGERS, OTHERS)),
    "stack_int64_float": (lambda a, b: torch.stack([a, b]), (OTHERS, FLOATS)),
    "hstack_int32_float": (lambda a, b: torch.hstack([a, b]), (INTEGERS, FLOATS)),
    "vstack_int64_float16": (lambda a, b: torch.vstack([a, b]), (OTHERS, FLOATS.to(F16))),
    "pow_int64_float": (lambda a, b: torch.pow(a, b), (number(I64, 1, 2, 3), FLOATS)),
    "pow_uint8": (lambda a: torch.pow(a, 2), (number(torch.uint8, 3, 15, 200),)),
    "pow_int32_int64": (lambda a, b: torch.pow(a, b), (INTEGERS, number(I64, 2, 3, 2))),
    "bool_plus_bool": (lambda a, b: a + b, (FLAGS, MORE_FLAGS)),
    "bool_times_bool": (lambda a, b: a * b, (FLAGS, MORE_FLAGS)),
    "select_scatter": (lambda a, b: torch.select_scatter(a, b, 0, 1), (torch.ones(2, 3), OTHERS)),
    "slice_scatter": (lambda a, b: torch.slice_scatter(a, b, 0, 0, 1), (torch.ones(2, 3), OTHERS.reshape(1, 3))),
    "where_int_float": (lambda c, a, b: torch.where(c, a, b), (FLAGS, OTHERS, FLOATS)),
    "float16_plus_number": (lambda a: a + 1.5, (FLOATS.to(F16),)),
    "clamp_int64_float": (lambda a: torch.clamp(a, 0.5, 2.5), (OTHERS,)),
    "maximum_int32_double": (lambda a, b: torch.maximum(a, b), (INTEGERS, FLOATS.to(F64))),
    "masked_fill_number": (lambda a, m: a.masked_fill(m, 2.5), (FLOATS.to(F16), FLAGS)),
    "shift_left": (lambda a, b: a << b, (number(I32, 1, 2, 3), number(torch.uint8, 1, 2, 3))),
    "cat_float16_float": (lambda a, b: torch.cat([a, b]), (FLOATS.to(F16), FLOATS)),
}


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def record(name: str, function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> None:
    expected = function(*inputs)
    program: Any = torch.onnx.export(Module(function), inputs, dynamo=True, optimize=False, verbose=False)
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # stack traces, with the paths of this machine
    program.save(HERE / f"{name}.onnx")
    arrays = {f"in{index}": tensor.numpy() for index, tensor in enumerate(inputs)}
    np.savez(HERE / f"{name}.npz", out=expected.numpy(), **arrays)


def main() -> None:
    for name, (function, inputs) in CASES.items():
        try:
            record(name, function, inputs)
            print(f"{name}: exported")
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")


if __name__ == "__main__":
    main()
