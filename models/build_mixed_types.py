"""A ranking head that PyTorch accepts and torch.onnx.export(dynamo=True) writes with operands of mixed types.

Nothing in the graph is edited by hand. The exporter has no promotion rule for stack, select_scatter and slice_scatter,
so what PyTorch promotes is left mixed (the declared result in brackets is right, and is what PyTorch computes):
  keys      stack of int32 and int64                       Concat(int32, int64) [int64]
  best      stack of the largest score and its index       Concat(float, int64) [float]
  columns   stack of float16, bfloat16 and int64           Concat(float16, bfloat16, int64) [float]
  table     an int64 column put into a float tensor        ScatterElements(float, updates int64) [float]
            the keys put into it as two more columns       ScatterND(float, updates int64) [not declared; float]
  total     stack of a symbolic size and a float sum       Concat(int64, float) [float]
Beside them, in `kept`, are mixes for which the exporter does write casts: leave those alone.
Oracle: PyTorch eager. All arithmetic is exact (small integers and dyadic fractions), so summation order is no matter;
an int64 that float cannot hold (16777217) is rounded to nearest even by PyTorch as by ONNX Cast.
"""

from __future__ import annotations

import numpy as np
import torch
from _build import Arrays, export, run_torch, write
from torch import Tensor, nn

CLASSES = 6


class RankingHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor([0.5, 2.0, -1.0, 4.0, 0.25, -8.0]))

    def forward(
        self, scores: Tensor, features: Tensor, user: Tensor, item: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        keys = torch.stack([user, item], dim=1)
        largest, place = scores.max(dim=-1)
        best = torch.stack([largest, place], dim=-1)
        columns = torch.stack([scores[:, 0].half(), scores[:, 1].bfloat16(), item], dim=-1) * 0.25
        table = torch.select_scatter(features * self.gain, item, 1, 0)
        table = torch.slice_scatter(table, keys, 1, 3, 5)
        kept = (
            torch.where(table > user[:, None], table, item[:, None]).masked_fill(item[:, None] < 0, -1) + user[:, None]
        )
        total = torch.stack([torch.scalar_tensor(scores.shape[0], dtype=torch.int64), scores.sum()])
        return keys, best, columns, table, kept, total


def inputs() -> list[Arrays]:
    rng = np.random.default_rng(9)

    def case(batch: int) -> dict[str, np.ndarray]:
        return {
            "scores": np.stack([rng.permutation(32)[:CLASSES] / 4 - 4 for _ in range(batch)]).astype(np.float32),
            "features": (rng.integers(-64, 64, (batch, CLASSES)) / 8).astype(np.float32),
            "user": rng.integers(-9, 9, batch).astype(np.int32),
            "item": rng.integers(-9, 999, batch).astype(np.int64),
        }

    plain, one, edge = case(5), case(1), case(4)
    edge["features"][:2] = [[1, -0.0, 1e-40, 0, 0, -1e-45], [1, np.nan, np.inf, 0, 0, 16777215]]
    edge["user"][:] = [2**31 - 1, -1, -(2**31), 0]
    edge["item"][:] = [257, 16777217, -1, -(2**53) - 1]
    return [plain, one, edge]


def main() -> None:
    cases = inputs()
    names = ["scores", "features", "user", "item"]
    head = RankingHead()
    batch = torch.export.Dim("batch")
    model = export(
        head,
        [torch.from_numpy(cases[0][name]) for name in names],
        input_names=names,
        output_names=["keys", "best", "columns", "table", "kept", "total"],
        dynamic_shapes={name: {0: batch} for name in names},
    )
    write("mixed_types", model, run_torch(head, model, cases))


if __name__ == "__main__":
    main()
