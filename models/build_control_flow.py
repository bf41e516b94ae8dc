"""An If and a Loop with operands of mixed types in their bodies, captured outer values and a float8 round trip.

torch.cond and torch.while_loop exported by torch.onnx.export(dynamo=True); nothing is edited by hand. What is mixed:
  then branch        stack of two captured values          Concat(float, int64) [declared float]
  else branch        a captured int64 row put into x       ScatterElements(float, updates int64) [float]
  loop body          stack of the state and an int32 row   Concat(float, int32) [float]
                     the int64 counter put into the state  ScatterElements(float, updates int64) [float]
The loop body also passes its state through float8e4m3fn (Cast there and back, around a captured scale).
Oracle: PyTorch eager. float8e4m3fn casts saturate in PyTorch as they do in ONNX, and all sums are of few-bit values,
hence exact.
"""

from __future__ import annotations

import numpy as np
import torch
from _build import Arrays, export, run_torch, write
from torch import Tensor, nn

WIDTH = 4


class ControlFlow(nn.Module):
    scale: Tensor
    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([0.5, 2.0, 1.0, -4.0]))
        self.register_buffer("steps", torch.tensor([1, 0, -3, 4], dtype=torch.int32))

    def forward(self, x: Tensor, position: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        def positive(x: Tensor, position: Tensor) -> Tensor:
            return torch.stack([x, position.expand_as(x)]).sum(0)

        def otherwise(x: Tensor, position: Tensor) -> Tensor:
            return torch.select_scatter(x, position, 0, 0)

        def unfinished(step: Tensor, _: Tensor) -> Tensor:
            return step < count

        def body(step: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            stored = (state * self.scale).to(torch.float8_e4m3fn).to(torch.float32)
            moved = torch.stack([stored, self.steps.expand_as(stored)]).sum(0)
            return step + 1, torch.select_scatter(moved * 0.5, step.expand(state.shape[0]), 1, 3)

        start = torch.cond(x.sum() > 0, positive, otherwise, (x, position))
        return torch.while_loop(unfinished, body, (torch.tensor(0), start))


def inputs() -> list[Arrays]:
    rng = np.random.default_rng(10)

    def case(values: np.ndarray, position: list[int], count: int) -> Arrays:
        return {
            "x": values.astype(np.float32),
            "position": np.array(position, np.int64),
            "count": np.array(count, np.int64),
        }

    plain = rng.integers(-32, 64, (3, WIDTH)) / 8
    edges = np.array([[1, 1, 1, 1], [-0.0, 1e-40, -1e-45, 0], [-1e30, 232.1, 464, 0], [2**-9, 3 * 2**-11, -7, 0]])
    lost = np.array([[1, 2, 3, 4], [np.nan, np.inf, -np.inf, 1]])
    return [
        case(abs(plain), [1, 2, 3, 257], 4),
        case(-abs(plain[:2]), [5, 6, -7, 8], 3),
        case(plain, [0, 0, 16777217, -1], 0),
        case(edges, [0, 1, -1, 16777217], 1),
        case(lost, [0, 1, 2, 3], 2),
    ]


def main() -> None:
    cases = inputs()
    module = ControlFlow()
    model = export(
        module,
        [torch.from_numpy(array) for array in cases[0].values()],
        input_names=list(cases[0]),
        output_names=["step", "state"],
        dynamic_shapes={"x": {0: torch.export.Dim("batch")}, "position": None, "count": None},
    )
    write("control_flow", model, run_torch(module, model, cases))


if __name__ == "__main__":
    main()
