"""What the rules of simplify-casts know about a model, and the chain of casts that ends in a node."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.ops.casts import CastNode, cast_node, chain_verdict, not_cast, read_cast
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.walks import Scope, graph_of
from castsmith.numerics.cast.settings import policy_for
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.types import type_name
from castsmith.passes.core.casts import cast_before, harmless
from castsmith.passes.core.cost import Legality
from castsmith.passes.core.rewriting import Replacement
from castsmith.passes.simplify.earlier import Earlier
from castsmith.passes.simplify.savings import reads_more

NAME = "simplify-casts"


@dataclass(frozen=True)
class Origin:
    """The earliest value from which one cast equals a chain of casts.

    It has the types in between, the reason and witness why the step before it is refused, and the facts about the
    values that made it exact.
    """

    value: onnx_ir.Value
    path: tuple[DataType, ...] = ()
    refused: tuple[str, str] | None = None
    because: str = ""

    @property
    def types_between(self) -> str:
        return " and ".join(type_name(dtype) for dtype in self.path)


@dataclass
class Chain:
    """A Cast or CastLike, and the casts before it that it makes superfluous."""

    node: onnx_ir.Node
    source: onnx_ir.Value
    meaning: CastNode
    to: DataType
    opset: int
    facts: Facts

    @cached_property
    def origin(self) -> Origin:
        """The start of the chain."""
        return self.facts.origin(self.source, self.meaning, self.opset)

    @property
    def is_round_trip(self) -> bool:
        """True if the start of the chain has the type in which it ends."""
        return self.facts.inference.type_of(self.origin.value) == self.to

    @cached_property
    def key(self) -> Hashable:
        """What determines the result; settings that the target type ignores do not count."""
        meaning = self.meaning
        policy = policy_for(self.to, saturate=meaning.saturate, round_mode=meaning.round_mode, opset=self.opset)
        return self.origin.value, self.to, policy

    @cached_property
    def twin(self) -> onnx_ir.Value | None:
        """The result of an earlier cast that gives the same."""
        results = self.facts.earlier.find(self.node.graph, self.key)
        return None if results is None else results[0]

    @cached_property
    def stays(self) -> bool:
        """True if one cast from the origin would move more bytes."""
        return reads_more(self.node, self.origin.value, self.facts.inference, self.opset)

    @cached_property
    def obstacle(self) -> str | None:
        """The reason why a Cast of the opset cannot replace a CastLike, which is invalid there too."""
        types = (self.to, self.facts.inference.type_of(self.origin.value))
        if self.node.op_type != "CastLike":
            return None
        return not_cast([dtype for dtype in types if dtype is not None], self.opset)

    def note(self, result: onnx_ir.Value) -> None:
        """Remember the result of the cast, for equal casts that follow."""
        self.facts.earlier.note(graph_of(self.node), self.key, (result,))

    def one_cast(self, rule: str, reason: str) -> Replacement:
        """Return the replacement of the chain by one Cast from its start."""
        meaning = self.meaning
        cast = cast_node(self.origin.value, self.to, saturate=meaning.saturate, round_mode=meaning.round_mode)
        cast.name, cast.outputs[0].name = self.node.name, self.node.outputs[0].name
        self.note(cast.outputs[0])
        return Replacement(rule, reason, (cast,), outputs=(cast.outputs[0],))


@dataclass
class Facts:
    """Facts about a model, kept right by the session while nodes are replaced.

    Attributes:
        inference: The element types.
        imports: The opset imports of each graph.
        ranges: The known ranges of integers.
        earlier: The results of the casts, and of the nodes before casts, visited so far.
        before_casts: The nodes from whose results a cast is computed; none if there are fewer than two casts.
        legality: The types that a node may be given.
        undefined_free: Shorten chains that the standard leaves open.
    """

    inference: Inference
    imports: Mapping[Scope, Mapping[str, int]]
    ranges: Ranges
    earlier: Earlier
    before_casts: Container[onnx_ir.Node]
    legality: Legality
    undefined_free: bool
    _chain: Chain | None = None
    _origins: dict[tuple[onnx_ir.Value, CastNode], Origin] = field(
        default_factory=dict[tuple[onnx_ir.Value, CastNode], Origin]
    )
    """Each start that was found, so that a long chain is not followed twice."""

    def imports_of(self, node: onnx_ir.Node) -> Mapping[str, int]:
        """Return the opset imports of the graph of the node."""
        return self.imports[graph_of(node)]

    def chain(self, node: onnx_ir.Node) -> Chain | None:
        """Return the chain that ends in a Cast or CastLike; None if its types are unknown."""
        if self._chain is not None and self._chain.node is node:
            return self._chain
        like = self.inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
        meaning, source = read_cast(node, like), node.inputs[0] if node.inputs else None
        if meaning is None or meaning.to is None or source is None:
            return None
        self._chain = Chain(node, source, meaning, meaning.to, opset_of(self.imports_of(node), "") or 1, self)
        return self._chain

    def origin(self, start: onnx_ir.Value, last: CastNode, opset: int) -> Origin:
        """Return the start of the chain of casts that ends in a cast of `start` by `last`."""
        source, path, because = start, list[DataType](), ""
        while (behind := self._origins.get((source, last))) is None:
            step = cast_before(source, self.inference)
            if step is None:
                behind = Origin(source)
                break
            before, dtype, first = step
            refused = _refused((dtype, first, last), opset, free=self.undefined_free)
            range_ = self.ranges.get(before)
            if refused is not None and range_ is not None and harmless(range_, dtype, first, last):
                refused, because = None, f" for {range_}"
            if refused is not None:
                behind = Origin(source, refused=refused)
                break
            path.append(first.target)
            source = before
        origin = Origin(behind.value, (*path, *behind.path), behind.refused, because or behind.because)
        self._origins[start, last] = origin
        return origin


@lru_cache(maxsize=1024)
def _refused(chain: tuple[DataType, CastNode, CastNode], opset: int, *, free: bool) -> tuple[str, str] | None:
    """Return the reason and a witness why the chain of two casts is not one cast; None if it is."""
    start, first, last = chain
    try:
        verdict = chain_verdict(start, first, last, opset, undefined_free=free)
    except (ElementTypeError, CastError) as error:
        return str(error), ""
    if verdict:
        return None
    types = " to ".join(type_name(dtype) for dtype in (start, first.target, last.target))
    return f"{types} must stay: {verdict.reason.value}", "" if verdict.witness is None else repr(verdict.witness)
