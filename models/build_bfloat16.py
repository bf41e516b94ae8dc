"""Makes `tests/lowering/bfloat16_transformer.onnx`: as PyTorch 2.13 exports it, less the metadata."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch

MODEL = Path(__file__).parents[1] / "tests" / "lowering" / "bfloat16_transformer.onnx"


class Classifier(torch.nn.Module):
    """Embedding, one encoder layer, softmax, and the mean over the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(16, 8)
        self.encoder = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.out = torch.nn.Linear(8, 4)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.encoder(self.embedding(ids))
        return torch.softmax(self.out(x), -1), x.mean(1)


def main() -> None:
    torch.manual_seed(0)
    model = Classifier().eval().to(torch.bfloat16)
    length = torch.export.Dim("length")
    program = torch.onnx.export(model, (torch.zeros(2, 5, dtype=torch.int64),), dynamo=True,
                                dynamic_shapes=({1: length},))  # fmt: skip
    assert program is not None
    proto = program.model_proto
    for thing in (proto, proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.graph.input):
        del thing.metadata_props[:]
    for value in (*proto.graph.output, *proto.graph.initializer):
        del value.metadata_props[:]
    onnx.save(proto, MODEL)


if __name__ == "__main__":
    main()
