"""A model run one operator at a time, each by the trusted engine for it, with the coverage of the run.

Conversions (Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear), promotions and QONNX's integer quantizers are
computed by Castsmith's exact arithmetic, every other operator by the engine, in a model of its own. Each array
has a mask of the elements that the standard leaves undefined; differences there are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import saturates_back
from castsmith.ir.ops.promote_types import is_convert_promote_types, promotion_rules_of
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import MOVERS, operators, traits_of
from castsmith.ir.text import site_of
from castsmith.ir.walks import bind_parameters, graphs_in, nodes_of, subgraphs_of
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.control_flow import Contents, Imports, run_control_flow
from castsmith.verification.evaluate.conversions import Content, Tensor, convert, spread
from castsmith.verification.evaluate.coverage import Calls, Coverage
from castsmith.verification.evaluate.engines import OURSELVES, Engine, EngineError, LimitError, is_half
from castsmith.verification.evaluate.indices import RangeError, depends_on_inputs, invalid_indices
from castsmith.verification.evaluate.limits import Budget, refuse_huge_operands, refuse_huge_results
from castsmith.verification.evaluate.promotion import Array, dtype_of, promote, promote_operands
from castsmith.verification.evaluate.sums import PRODUCTS, added_up_in_half

Path = tuple[tuple[str, int], ...]
"""Position of a value in control flow and calls: the outer nodes, by their results, and the iteration of each."""

Watch = Callable[[Path, onnx_ir.Value, Tensor], None]
Correct = Callable[[Path, onnx_ir.Value, Tensor], Tensor]
"""Returns the tensor with which the run goes on instead of the computed one."""

_RANDOM = operators(lambda row: row.random)
_SEED = 1


class Evaluator:
    """Runs one model. watch: called with each value and its tensor after it is computed."""

    def __init__(
        self, model: onnx_ir.Model, rules: PromotionRules, engine: Engine, budget: Budget | None = None
    ) -> None:
        self.model = model
        self.rules = rules
        self.engine = engine
        self.budget = budget or Budget()
        self.coverage = Coverage()
        self.random: set[str] = set()
        self.progress = 0
        """The number of nodes of the main graph that have run: the progress of a failed run."""
        self._watch: Watch | None = None
        self._correct: Correct | None = None
        self._trial = False
        self._path: list[tuple[str, int]] = []
        self._calls: Calls = ()
        self._bound: dict[Hashable, onnx_ir.Function] = {}
        self._origin: dict[onnx_ir.Node, onnx_ir.Node] = {}
        self._joined: dict[Hashable, list[DataType | None] | None] = {}
        self._tables: dict[onnx_ir.Node, bool] = {}
        self._dropped = _last_uses(model.graph)

    def run(
        self,
        feeds: Mapping[str, Array | list[Array] | None],
        watch: Watch | None = None,
        correct: Correct | None = None,
    ) -> dict[str, Content]:
        """Return the outputs of the main graph by name. Raises EngineError if a node does not run."""
        self._watch, self._path, self._calls, self._trial = watch, [], (), False
        self._correct = correct
        self.budget.steps, self.progress = 0, 0
        graph = self.model.graph
        scope: Contents = {v: _content(feeds[v.name or ""]) for v in graph.inputs if v.name in feeds}
        unfed = [v.name or "" for v in graph.inputs if v not in scope and v.const_value is None]
        if unfed:
            raise EngineError(f"the input {unfed[0]} has no value.")
        live_bytes = sum(map(_bytes, scope.values()))
        self._initializers(graph, scope)
        for node in graph:
            self._node_into(node, scope, graph.opset_imports)
            self.progress += 1
            live_bytes += sum(_bytes(scope.get(value)) for value in node.outputs)
            self.budget.require_memory(live_bytes)
            for value in self._dropped.get(node, ()):
                live_bytes -= _bytes(scope.pop(value, None))
        for value in graph.outputs:
            content = scope[value]
            if isinstance(content, Tensor):
                self.coverage.output_types[value.name or ""] = dtype_of(content.array)
                self.coverage.output_shapes[value.name or ""] = content.array.shape
        return {value.name or "": scope[value] for value in graph.outputs}

    def graph(self, graph: onnx_ir.Graph, scope: Contents, imports: Imports, *, trial: bool = False) -> list[Content]:
        """Return the outputs of a subgraph in its scope. trial: nothing is recorded."""
        self._initializers(graph, scope)
        before = self._trial
        self._trial = before or trial
        if not trial:
            name, turn = self._path[-1]
            self._path[-1] = name, turn + 1
        try:
            return self._body(graph, scope, imports)
        finally:
            self._trial = before

    def took(self, node: onnx_ir.Node, way: str) -> None:
        """Note the branch that an If took, or the number of iterations of a loop."""
        if not self._trial:
            self.coverage.took(self._calls, self._origin.get(node, node), way)

    def joined(
        self, node: onnx_ir.Node, find: Callable[[], list[DataType | None] | None]
    ) -> list[DataType | None] | None:
        """Return the cached result of `find` for this node in these calls: all sets of inputs have the same types."""
        key = (node, tuple(name for name, _ in self._path))
        if key not in self._joined:
            self._joined[key] = find()
        return self._joined[key]

    def _initializers(self, graph: onnx_ir.Graph, scope: Contents) -> None:
        for value in graph.initializers.values():
            if value not in scope and value.const_value is not None:
                scope[value] = Tensor(_array(value.const_value))

    def _body(self, body: onnx_ir.Graph | onnx_ir.Function, scope: Contents, imports: Imports) -> list[Content]:
        for node in body:
            self._node_into(node, scope, imports)
        return [scope[value] for value in body.outputs]

    def _node_into(self, node: onnx_ir.Node, scope: Contents, imports: Imports) -> None:
        self.budget.require_time()
        inputs = [None if value is None else scope.get(value) for value in node.inputs]
        self._path.append((next((value.name or "" for value in node.outputs), ""), 0))
        try:
            results = self._node(node, inputs, scope, imports)
        except EngineError as error:
            error.args = (f"{site_of(node)}: {str(error).removeprefix(f'{site_of(node)}: ')}",)
            error.open = error.open or any(isinstance(c, Tensor) and c.undefined is not None for c in inputs)
            raise
        except MemoryError:
            raise LimitError(f"{site_of(node)}: there is not enough memory for {node.op_type}.") from None
        finally:
            self._path.pop()
        for index, (value, result) in enumerate(zip(node.outputs, results, strict=False)):
            content = result
            if self._correct is not None and isinstance(content, Tensor) and value.name and not self._trial:
                content = self._correct(tuple(self._path), value, content)
            scope[value] = content
            if isinstance(content, Tensor) and value.name and not self._trial:
                self.coverage.saw(self._origin.get(node, node), index, content)
                if self._watch is not None:
                    self._watch(tuple(self._path), value, content)

    def _node(self, node: onnx_ir.Node, inputs: list[Content], scope: Contents, imports: Imports) -> list[Content]:
        function = self.model.functions.get(node.op_identifier())
        if is_convert_promote_types(node):
            self.engine.note(OURSELVES, node.op_type)
            tensors = [content for content in inputs if isinstance(content, Tensor)]
            arrays = promote([tensor.array for tensor in tensors], promotion_rules_of(node))
            return [Tensor(array, tensor.undefined) for array, tensor in zip(arrays, tensors, strict=True)]
        if function is not None:
            return self._call(node, function, inputs)
        if node.domain in DEFAULT_DOMAINS:
            tensor = constant_tensor(node.outputs[0]) if node.op_type == "Constant" else None
            if tensor is not None:
                return [Tensor(_array(tensor))]
            try:
                flow = run_control_flow(self, node, inputs, scope, imports)
            except (
                ValueError,
                IndexError,
                KeyError,
                TypeError,
            ) as error:  # what numpy says of axes
                raise EngineError(f"{node.op_type} cannot be run: {error}") from None
            if flow is not None:
                return flow
        if any(isinstance(content, list) for content in inputs):
            if node.op_type == "Identity":
                return inputs
            raise EngineError(f"{node.op_type} gets a sequence, which is not supported.")
        return self._operator(node, [c if isinstance(c, Tensor) else None for c in inputs], imports)

    def _operator(self, node: onnx_ir.Node, operands: list[Tensor | None], imports: Imports) -> list[Content]:
        arrays = [None if tensor is None else tensor.array for tensor in operands]
        self.budget.note(arrays)
        converted = convert(node, arrays, imports)
        if converted is not None:
            self.engine.note(OURSELVES, node.op_type)
            results, own = [converted.array], converted.undefined

            def run(replaced: list[Array | None]) -> Sequence[Array]:
                again = convert(node, replaced, imports)
                return [] if again is None else [again.array]
        else:
            self._require_indices(node, arrays)
            results, own = self._by_engine(node, arrays, imports), None

            def run(replaced: list[Array | None]) -> Sequence[Array]:
                return self._by_engine(node, replaced, imports)

        origin = self._origin.get(node, node)
        if not self._trial:
            self.coverage.fed(origin, arrays)
        if not self._trial and node.domain in DEFAULT_DOMAINS and results:
            self.coverage.chose(self._calls, origin, arrays, results[0])
        marks = spread(node, operands, results, run)
        if self._draws(node, arrays):
            marks = [np.ones(result.shape, np.bool_) if self._unseeded(node) else None for result in results]
        if own is not None:
            marks[0] = own if marks[0] is None else marks[0] | own
        return [Tensor(array, mask) for array, mask in zip(results, marks, strict=True)]

    def _draws(self, node: onnx_ir.Node, arrays: Sequence[Array | None]) -> bool:
        """True if the node draws random numbers."""
        if node.domain not in DEFAULT_DOMAINS:
            return False
        training = node.op_type == "Dropout" and len(arrays) > 2 and arrays[2] is not None and bool(np.all(arrays[2]))
        return training or node.op_type in _RANDOM

    def _unseeded(self, node: onnx_ir.Node) -> bool:
        return "seed" not in node.attributes

    def _call(self, node: onnx_ir.Node, function: onnx_ir.Function, inputs: list[Content]) -> list[Content]:
        self.budget.turn(f"the function {node.op_type}", len(function))
        bound = self._bound_function(function, node)
        call: Contents = dict(zip(bound.inputs, inputs, strict=False))
        before = self._calls
        self._calls = (*before, self._origin.get(node, node))
        try:
            return self._body(bound, call, bound.opset_imports)
        finally:
            self._calls = before

    def _bound_function(self, function: onnx_ir.Function, node: onnx_ir.Node) -> onnx_ir.Function:
        """Return the function as `node` calls it: itself if it has no parameters, or a copy with those of the call.

        An omitted parameter has the function's default; without a default the attributes that refer to it
        are omitted, by the standard.
        """
        if not function.attributes:
            return function
        values = {name: node.attributes.get(name) or default for name, default in function.attributes.items()}
        key = (function, *((name, attribute.type, repr(attribute.value)) for name, attribute in values.items()))
        if key not in self._bound:
            copy = function.clone()
            for original, inner in zip(nodes_of(function), nodes_of(copy), strict=True):
                self._origin[inner] = self._origin.get(original, original)
                bind_parameters(inner, {name: a for name, a in values.items() if a.value is not None})
            self._bound[key] = copy
        return self._bound[key]

    def _require_indices(self, node: onnx_ir.Node, arrays: Sequence[Array | None]) -> None:
        """Raise RangeError for an index that the operator does not support, and note the rows read of a constant."""
        invalid = invalid_indices(node, arrays)
        if invalid is not None:
            error = RangeError(invalid[1])
            error.node, error.bound = self._origin.get(node, node), invalid[0]
            raise error
        table, index = (*arrays, None, None)[:2]
        gathers = node.op_type in ("Gather", "GatherElements") and node.domain in DEFAULT_DOMAINS
        if not gathers or self._trial or table is None or index is None:
            return
        axis = node.attributes.get_int("axis", 0) or 0
        if index.dtype.kind not in "iu" or not -table.ndim <= axis < table.ndim:
            return
        original = self._origin.get(node, node)
        if original not in self._tables:
            constant, places = original.inputs[:2]
            self._tables[original] = not depends_on_inputs(constant) and depends_on_inputs(places)
        if self._tables[original]:
            self.coverage.read(original, table.shape[axis], index)

    def _by_engine(self, node: onnx_ir.Node, inputs: Sequence[Array | None], imports: Imports) -> list[Array]:
        refuse_huge_operands(node, inputs, self.budget.memory)
        stored = _stored(node, inputs)
        if stored is not None:
            codes, dtype = np.dtype(f"u{stored.itemsize}"), stored
            views = [a.view(codes) if a is not None and a.dtype == dtype else a for a in inputs]
            moved = self._by_engine(node, views, imports)
            return [array.view(dtype) for array in moved]
        drawn = self._draws(node, inputs)
        if drawn:
            self.random.add(f"{node.op_type}{' (no seed)' if self._unseeded(node) else ''}")
        try:
            version = opset_of(imports, node.domain)
            schema = onnx.defs.get_schema(node.op_type, version or 1, "" if node.domain == "ai.onnx" else node.domain)
        except onnx.defs.SchemaError:
            return self._run(node, inputs, imports)
        try:
            promoted = promote_operands(node, inputs, schema, self.rules)
        except PromotionError:
            raise
        except ValueError as error:  # what numpy says of shapes
            raise EngineError(f"{node.op_type} cannot be run: {error}") from None
        if promoted.result is not None:
            return [promoted.result]
        refuse_huge_results(node, promoted.operands, schema, self.budget.memory)
        extra = {"seed": _seed(schema)} if drawn and self._unseeded(node) else {}
        results = self._run(node, promoted.operands, imports, fresh=drawn, extra=extra)
        formals = [schema.outputs[min(index, len(schema.outputs) - 1)].type_str for index in range(len(results))]
        pairs = zip(results, formals, strict=True)
        return [_cast_back(array, promoted.back[name]) if name in promoted.back else array for array, name in pairs]

    def _run(self, node: onnx_ir.Node, operands: Sequence[Array | None], imports: Imports, **how: Any) -> list[Array]:
        results = self.engine.run(node, operands, imports, seconds=self.budget.call, **how)
        if node.op_type in PRODUCTS and is_half(operands) and self.engine.half_inside(node):
            results[0] = added_up_in_half(node, results[0], operands)
        return results


def _seed(schema: onnx.defs.OpSchema) -> float:
    """Return a seed of the type that the operator has it in: an integer for Dropout, otherwise a float."""
    return _SEED if schema.attributes["seed"].type == onnx.defs.OpSchema.AttrType.INT else float(_SEED)


def _cast_back(array: Array, to: DataType) -> Array:
    return cast(array, to, saturate=saturates_back(to))


def _stored(node: onnx_ir.Node, inputs: Sequence[Array | None]) -> np.dtype[Any] | None:
    """Return the type that numpy lacks whose elements the node only moves, so that any engine can move their codes."""
    if node.op_type not in MOVERS or node.domain not in DEFAULT_DOMAINS:
        return None
    moved_places = traits_of("", node.op_type).elements
    places = range(len(inputs)) if moved_places is None else moved_places
    moved = {array.dtype for place, array in enumerate(inputs) if place in places and array is not None}
    if len(moved) != 1:
        return None  # operands that are promoted first
    (dtype,) = moved
    return dtype if dtype.isbuiltin == 2 and DataType.from_numpy(dtype) is not DataType.FLOAT8E8M0 else None


def _array(tensor: onnx_ir.TensorProtocol) -> Array:
    """Return the array of a constant; text as str, as engines treat bytes as other text."""
    array = tensor.numpy()
    if tensor.dtype is not DataType.STRING:
        return array
    texts = [text.decode(errors="replace") if isinstance(text, bytes) else text for text in array.reshape(-1).tolist()]
    return np.array(texts, object).reshape(array.shape)


def _bytes(content: Content) -> int:
    """Return the bytes of a tensor, or of all members of a sequence."""
    if isinstance(content, Tensor):
        return content.array.nbytes + (0 if content.undefined is None else content.undefined.nbytes)
    return 0 if content is None else sum(map(_bytes, content))


def _content(feed: Array | Sequence[Array] | None) -> Content:
    if isinstance(feed, np.ndarray):
        return Tensor(feed)
    return None if feed is None else [Tensor(array) for array in feed]


def _last_uses(graph: onnx_ir.Graph) -> dict[onnx_ir.Node, list[onnx_ir.Value]]:
    """Return the values that are unused after each node of the graph, so that their memory can be released."""
    last: dict[onnx_ir.Value, onnx_ir.Node] = {}
    for node in graph:
        for value in (*node.inputs, *node.outputs):
            if value is not None:
                last[value] = node
        for attribute in node.attributes.values():
            for inner_graph in graphs_in(attribute):
                for subgraph in (inner_graph, *subgraphs_of(inner_graph)):
                    last.update((value, node) for value in subgraph.outputs)
                for inner in nodes_of(inner_graph):
                    last.update((value, node) for value in inner.inputs if value is not None)
    dropped: dict[onnx_ir.Node, list[onnx_ir.Value]] = {}
    outputs = set(graph.outputs)
    for value, node in last.items():
        if value not in outputs and value.producer() is not None:
            dropped.setdefault(node, []).append(value)
    return dropped
