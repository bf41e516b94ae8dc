"""One inference for a run of passes: what a rewrite changes is followed, so that nothing is inferred twice.

A pass that follows its rewrites hands the inference on in its result. Whoever runs passes one after the other, with
nothing between that changes the model, lends it to the next one; `infer_element_types` then has nothing left to do.
A pass that runs alone is lent nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import onnx_ir

from castsmith.ir.inference.walk import LENT, Inference
from castsmith.ir.walks import Scope, graphs_in


@contextmanager
def lend(model: onnx_ir.Model, inference: Inference | None) -> Generator[None]:
    """Let `infer_element_types` find what is known of the types of the model already, for the time of the block."""
    if inference is not None:
        model.meta[LENT] = inference
    try:
        yield
    finally:
        model.meta.pop(LENT, None)


def outdated(model: onnx_ir.Model) -> None:
    """Take back what was lent: a pass that infers types again, after it changed the model without following it."""
    model.meta.pop(LENT, None)


@dataclass
class Following:
    """An inference that is brought up to date with each rewrite of a pass.

    imports: the opset imports of each graph of the model.
    stale: whether a rewrite changed more than what it put in place, so that the inference is not right any more.
    """

    inference: Inference
    imports: Mapping[Scope, Mapping[str, int]]
    stale: bool = False

    def rewritten(
        self, node: onnx_ir.Node, made: Sequence[onnx_ir.Node], outputs: Sequence[onnx_ir.Value] | None
    ) -> None:
        """Note one rewrite that was done: the new nodes, in order, and what stands in for the outputs of `node`, which
        is gone; None: it stays, with other inputs."""
        if self.stale:
            return
        types = self.inference.types
        before = [types.get(value) for value in node.outputs]
        for each in made if outputs is not None else (*made, node):
            if each.graph is None or self._reaches_further(each):
                self.stale = True
                return
            self.inference.walk((each,), self.imports[each.graph])
        after = [types.get(value) for value in node.outputs]
        if outputs is not None:
            after = [self.inference.type_of(value) for value in outputs]
            for value in node.outputs:
                types.pop(value, None)
        self.stale = before != after

    def handed_on(self) -> Inference | None:
        """The inference for the next pass, without what is gone from the model; None where it would not be right."""
        inference = self.inference
        if self.stale or inference.to_convert or any(len(calls) > 1 for calls in inference.signatures.values()):
            return None
        for value in [value for value in inference.types if _is_gone(value)]:
            del inference.types[value]
        return inference

    def _reaches_further(self, node: onnx_ir.Node) -> bool:
        """Whether what the node gives depends on a function, or on graphs of its own."""
        held = any(map(graphs_in, node.attributes.data.values()))
        return held or node.op_identifier() in self.inference.functions


def _is_gone(value: onnx_ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.graph is None
