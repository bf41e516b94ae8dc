"""A model run one operator at a time, each by the engine that is to be believed for it.

Conversions (Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear), promotions and QONNX Trunc are computed by
Castsmith's exact arithmetic, every other operator by the engine, in a model of its own. Beside each value goes a mask
of the elements that the standard leaves undefined, which are nobody's fault where they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx.defs
import onnx_ir
from numpy.typing import NDArray

from castsmith.ir.constants import constant_tensor
from castsmith.ir.promote_node import is_convert_promote_types, promotion_rules_of
from castsmith.ir.qonnx import is_trunc, read_trunc, trunc_operands
from castsmith.ir.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.text import site_of
from castsmith.ir.verify_call import Functions, bound_function
from castsmith.ir.verify_engines import OURSELVES, Engine, EngineError
from castsmith.ir.verify_exact import Mask, convert, spread
from castsmith.ir.verify_flow import Imports, Scope, run_control_flow
from castsmith.ir.verify_promotion import Array, promote, promote_operands
from castsmith.ir.verify_sizes import refuse_huge
from castsmith.numerics.cast import cast
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.trunc import trunc

Path = tuple[tuple[str, int], ...]
"""Where a value stands in control flow and calls: the nodes around it, by what they give, and which turn of each."""

Watch = Callable[[Path, onnx_ir.Value, Array, Mask], None]

_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


class Evaluator:
    """Runs one model. watch: called with each value, its array and mask, once it is computed."""

    def __init__(self, model: onnx_ir.Model, rules: PromotionRules, engine: Engine) -> None:
        self.model = model
        self.rules = rules
        self.engine = engine
        self.masks: dict[onnx_ir.Value, NDArray[np.bool_]] = {}
        self._watch: Watch | None = None
        self._path: list[tuple[str, int]] = []
        self._bound: Functions = {}

    def run(self, feeds: Mapping[str, Array], watch: Watch | None = None) -> dict[str, tuple[Array, Mask]]:
        """The outputs of the main graph by name, each with its mask. Raises EngineError where a node does not run."""
        self.masks, self._watch, self._path = {}, watch, []
        graph = self.model.graph
        scope = {value: feeds[value.name or ""] for value in graph.inputs if value.name in feeds}
        missing = [v.name or "" for v in graph.inputs if v not in scope and v.const_value is None]
        if missing:
            raise EngineError(f"there is nothing to feed to the input {missing[0]}.")
        self._initializers(graph, scope)
        for node in graph:
            self._node_into(node, scope, graph.opset_imports)
        return {value.name or "": (scope[value], self.masks.get(value)) for value in graph.outputs}

    def graph(self, graph: onnx_ir.Graph, scope: Scope, imports: Imports, *, trial: bool = False) -> list[Array]:
        """The outputs of a subgraph in the scope around it. trial: nobody is told of its values."""
        self._initializers(graph, scope)
        watch, self._watch = self._watch, None if trial else self._watch
        if not trial:
            name, turn = self._path[-1]
            self._path[-1] = name, turn + 1
        try:
            return self._body(graph, scope, imports)
        finally:
            self._watch = watch

    def _initializers(self, graph: onnx_ir.Graph, scope: Scope) -> None:
        for value in graph.initializers.values():
            if value not in scope and value.const_value is not None:
                scope[value] = value.const_value.numpy()

    def _body(self, body: onnx_ir.Graph | onnx_ir.Function, scope: Scope, imports: Imports) -> list[Array]:
        for node in body:
            self._node_into(node, scope, imports)
        return [scope[value] for value in body.outputs]

    def _node_into(self, node: onnx_ir.Node, scope: Scope, imports: Imports) -> None:
        inputs = [None if value is None else scope.get(value) for value in node.inputs]
        self._path.append((next((value.name or "" for value in node.outputs), ""), 0))
        try:
            results = self._node(node, inputs, scope, imports)
        except EngineError as error:
            raise EngineError(f"{site_of(node)}: {str(error).removeprefix(f'{site_of(node)}: ')}") from None
        finally:
            self._path.pop()
        scope.update(zip(node.outputs, results, strict=False))
        masks = [self.masks.get(value) for value in node.inputs if value is not None]
        if any(mask is not None for mask in masks):
            for value, result in zip(node.outputs, results, strict=False):
                self._add_mask(value, spread(node, masks, result))
        for value in node.outputs if self._watch is not None else ():
            if self._watch is not None and value in scope:
                self._watch(tuple(self._path), value, scope[value], self.masks.get(value))

    def _add_mask(self, value: onnx_ir.Value, mask: Mask) -> None:
        if mask is not None and mask.any():
            known = self.masks.get(value)
            self.masks[value] = mask if known is None or known.shape != mask.shape else known | mask

    def _node(self, node: onnx_ir.Node, inputs: list[Array | None], scope: Scope, imports: Imports) -> list[Array]:
        present = [array for array in inputs if array is not None]
        if is_convert_promote_types(node):
            self.engine.note(OURSELVES, node.op_type)
            return promote(present, promotion_rules_of(node))
        function = self.model.functions.get(node.op_identifier())
        if function is not None:
            return self._call(node, function, inputs)
        if node.domain in DEFAULT_DOMAINS:
            tensor = constant_tensor(node.outputs[0]) if node.op_type == "Constant" else None
            if tensor is not None:
                return [tensor.numpy()]
            flow = run_control_flow(self, node, inputs, scope, imports)
            if flow is not None:
                return flow
            converted = convert(node, inputs, opset_of(imports, "") or 1)
            if converted is not None:
                self.engine.note(OURSELVES, node.op_type)
                self._add_mask(node.outputs[0], converted[1])
                return [converted[0]]
        if is_trunc(node):
            self.engine.note(OURSELVES, node.op_type)
            return [self._trunc(node, scope, imports)]
        return self._by_engine(node, inputs, imports)

    def _call(self, node: onnx_ir.Node, function: onnx_ir.Function, inputs: list[Array | None]) -> list[Array]:
        bound = bound_function(function, node, self._bound)
        call = {value: array for value, array in zip(bound.inputs, inputs, strict=False) if array is not None}
        return self._body(bound, call, bound.opset_imports)

    def _trunc(self, node: onnx_ir.Node, scope: Scope, imports: Imports) -> Array:
        meaning = read_trunc(node, imports)
        operands: dict[str, Any] = {k: scope[v] for k, v in trunc_operands(node, meaning.version).items()}
        mode, version = meaning.rounding_mode, meaning.version
        result = trunc(**operands, rounding_mode=mode, signed=meaning.signed, narrow=meaning.narrow, version=version)
        return result.astype(np.float32)

    def _by_engine(self, node: onnx_ir.Node, inputs: list[Array | None], imports: Imports) -> list[Array]:
        refuse_huge(node, inputs)
        if node.op_type in _RANDOM and node.domain in DEFAULT_DOMAINS:
            raise EngineError(f"{node.op_type} gives random numbers, so that no two runs can be compared.")
        try:
            version = opset_of(imports, node.domain)
            schema = onnx.defs.get_schema(node.op_type, version or 1, "" if node.domain == "ai.onnx" else node.domain)
        except onnx.defs.SchemaError:
            return self.engine.run(node, inputs, imports)
        promoted = promote_operands(node, inputs, schema, self.rules)
        if promoted.result is not None:
            return [promoted.result]
        results = self.engine.run(node, promoted.operands, imports)
        if not promoted.back:
            return results
        formals = [schema.outputs[min(index, len(schema.outputs) - 1)].type_str for index in range(len(results))]
        pairs = zip(results, formals, strict=True)
        return [cast(array, promoted.back[name]) if name in promoted.back else array for array, name in pairs]
