"""The step between PyTorch's exporter and what comes after it."""

from __future__ import annotations

from typing import Any

import onnx_ir
import pytest

from castsmith.integrations import pytorch

torch = pytest.importorskip("torch")


def exported() -> Any:
    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.linear(x.to(torch.float8_e4m3fn).to(torch.float32))

    return torch.onnx.export(Head().eval(), (torch.ones(2, 4),), dynamo=True, verbose=False)


def test_a_program_is_replaced_and_still_runs() -> None:
    """Also one that ran before: its session has the former model."""
    program = exported()
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 2)
    (before,) = program(x)
    assert pytorch.optimize(program, target="onnxruntime-android") is program
    assert onnx_ir.DataType.FLOAT8E4M3FN not in {value.dtype for node in program.model.graph for value in node.outputs}
    assert torch.equal(program(x)[0], before)
    pytorch.convert(program, to="float16")
    types = {name: value.dtype for name, value in program.model.graph.initializers.items()}
    assert types["linear.bias"] == onnx_ir.DataType.FLOAT16
    (after,) = program(x)
    assert not torch.equal(after, before)
    assert torch.allclose(after, before, rtol=1e-2, atol=1e-2)


def test_fit_takes_the_program() -> None:
    program = pytorch.fit(exported(), target="onnxruntime-webgpu")
    assert onnx_ir.DataType.FLOAT8E4M3FN not in {value.dtype for node in program.model.graph for value in node.outputs}
