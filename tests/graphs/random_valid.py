"""Random valid models of every element type and opset, with everything about them that a rewrite may trip over.

Equal names in sibling scopes, names that an enclosing graph uses later, inputs of bodies that shadow, dead code,
strings, sequences, optionals and maps, initializers that are inputs (IR version 3 and later), unknown ranks, values
without value_info, functions with attributes, nested If, Loop and Scan. Each is accepted by `onnx.checker`.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import onnx
import onnx.checker
import onnx.helper
import onnx.shape_inference
from onnx_ir import DataType

from tests.graphs.random_values import COMMON, SHAPES, NothingFitsError, Scope, Typed, Values, types_at
from tests.soak.sweep.execute import checker_refusal

OPSETS = range(7, 29)
ALL = tuple(dtype for dtype in DataType if dtype is not DataType.UNDEFINED)

_UNARY = ("Identity", "Neg", "Abs", "Relu", "Sign", "Floor", "Not", "Transpose", "Shape", "IsNaN", "Round", "Softsign")
_BINARY = ("Add", "Sub", "Mul", "Max", "Min", "And", "Xor", "Equal", "Less", "Greater", "GreaterOrEqual", "BitwiseOr")
_ATTEMPTS = 60
_REFUSED = 3


def random_valid_model(random: Random) -> onnx.ModelProto:
    """A model that `onnx.checker` accepts with a full check."""
    for _ in range(_ATTEMPTS):
        builder = Builder(random, random.choice(OPSETS), COMMON if random.random() < 0.6 else ALL)
        try:
            model = builder.model()
        except NothingFitsError:
            continue
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError):
            continue  # what the generator does not know of an opset
        if checker_refusal(model) is not None:
            continue
        return without_shapes(model, random) if random.random() < 0.2 else model
    raise AssertionError("no valid model was made")


def without_shapes(model: onnx.ModelProto, random: Random) -> onnx.ModelProto:
    """The model without the shapes of some inputs and outputs, which the checker asks for and runtimes do not."""
    for info in (*model.graph.input, *model.graph.output):
        if info.type.HasField("tensor_type") and random.random() < 0.5:
            info.type.tensor_type.ClearField("shape")
    for info in model.graph.value_info:  # would state what an input without a shape no longer has to be
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return model


@dataclass
class Builder(Values):
    # Steps: each adds nodes to the scope, or finds that there is nothing to add

    def steps(self, scope: Scope, count: int) -> None:
        kinds: list[Callable[[Scope], None]] = [self.cast] * 6 + [self.unary, self.binary] * 3
        kinds += [self.movement] * 3 + [self.leaf, self.where, self.quantize, self.sequence, self.optional]
        kinds += [self.like, self.joined]
        if scope.depth > 0:
            kinds += [self.branches, self.loop, self.scan]
        if scope.functions:
            kinds += [self.call] * 2
        made = 0
        for _ in range(count * 4):
            if made == count:
                return
            size = len(scope.nodes)
            names = set(scope.taken), dict(scope.values)
            try:
                self.random.choice(kinds)(scope)
                made += 1
            except NothingFitsError:
                del scope.nodes[size:]
                scope.taken, scope.values = names

    def cast(self, scope: Scope) -> None:
        to = [dtype for dtype in self.palette if dtype in types_at("Cast", self.opset, output=True)]
        source = self.tensor_of(scope, types_at("Cast", self.opset))
        dtype = self.random.choice(to)
        attributes: dict[str, Any] = {"to": int(dtype)}
        if "FLOAT8" in dtype.name and self.opset >= 19 and self.random.random() < 0.3:
            attributes["saturate"] = 0
        self.add(scope, "Cast", [source], Typed(dtype, scope.values[source].rank), **attributes)

    def like(self, scope: Scope) -> None:
        source = self.tensor_of(scope, types_at("CastLike", self.opset))
        model = self.tensor_of(scope, types_at("CastLike", self.opset, 1))
        typed = Typed(scope.values[model].dtype, scope.values[source].rank)
        self.add(scope, "CastLike", [source, model], typed)

    def unary(self, scope: Scope) -> None:
        op_type = self.random.choice(_UNARY)
        source = self.tensor_of(scope, types_at(op_type, self.opset))
        typed = scope.values[source]
        given = types_at(op_type, self.opset, output=True)
        if op_type == "Shape":
            typed = Typed(DataType.INT64, -1)
        elif op_type == "Transpose":
            attributes: dict[str, Any] = {"perm": list(range(typed.rank))} if typed.rank > 0 else {}
            self.add(scope, op_type, [source], typed, **attributes)
            return
        elif typed.dtype not in given:
            typed = Typed(next(iter(given)), typed.rank)
        self.add(scope, op_type, [source], typed)

    def binary(self, scope: Scope) -> None:
        op_type = self.random.choice(_BINARY)
        a = self.tensor_of(scope, types_at(op_type, self.opset))
        dtype = scope.values[a].dtype
        b = self.tensor_of(scope, {dtype}) if self.random.random() < 0.6 else self.cast_to(scope, dtype, 0)
        ranks = [scope.values[a].rank, scope.values[b].rank]
        if -1 in ranks:
            raise NothingFitsError
        given = types_at(op_type, self.opset, output=True)
        self.add(scope, op_type, [a, b], Typed(dtype if dtype in given else DataType.BOOL, max(ranks)))

    def where(self, scope: Scope) -> None:
        condition = self.tensor_of(scope, {DataType.BOOL})
        a = self.tensor_of(scope, types_at("Where", self.opset, 1))
        b = self.cast_to(scope, scope.values[a].dtype, self.random.choice((0, 1)))
        ranks = [scope.values[name].rank for name in (condition, a, b)]
        if -1 in ranks:
            raise NothingFitsError
        self.add(scope, "Where", [condition, a, b], Typed(scope.values[a].dtype, max(ranks)))

    def movement(self, scope: Scope) -> None:
        kind = self.random.choice(("Reshape", "Concat", "Gather", "Expand", "Slice", "Flatten", "Tile"))
        source = self.tensor_of(scope, types_at(kind, self.opset))
        dtype, rank = scope.values[source].dtype, scope.values[source].rank
        if rank < 0:
            raise NothingFitsError
        vector = Typed(dtype, 1)
        if kind == "Reshape":
            self.add(scope, kind, [source, self.fixed(scope, SHAPES[rank])], Typed(dtype, rank))
        elif kind == "Flatten" and rank == 2:
            self.add(scope, kind, [source], Typed(dtype, 2), axis=1)
        elif kind == "Expand":
            self.add(scope, kind, [source, self.fixed(scope, SHAPES[max(rank, 1)])], Typed(dtype, max(rank, 1)))
        elif kind == "Tile" and rank == 1:
            self.add(scope, kind, [source, self.fixed(scope, [1])], vector)
        elif kind == "Gather" and rank == 1:
            self.add(scope, kind, [source, self.fixed(scope, [2, 0, 1])], vector)
        elif kind == "Concat" and rank == 1:
            long = self.add(scope, kind, [source, self.tensor_of(scope, {dtype}, 1)], Typed(dtype, -1), axis=0)
            self.add(scope, "Gather", [long, self.fixed(scope, [5, 2, 0])], vector, axis=0)
        elif kind == "Slice" and rank == 1 and self.opset >= 10:
            places = [self.fixed(scope, [place]) for place in (0, 5, 0)]
            self.add(scope, kind, [source, *places], vector)
        else:
            raise NothingFitsError

    def leaf(self, scope: Scope) -> None:
        typed = Typed(self.random.choice(self.palette), self.random.choice((0, 0, 1)))
        if scope.depth == 2 and self.random.random() < 0.5:
            name = self.name(scope)
            self.initializers.append(self.proto(typed, name))
            scope.values[name] = typed
        else:
            self.constant(scope, typed)

    def quantize(self, scope: Scope) -> None:
        if self.opset < 10:
            raise NothingFitsError
        source = self.tensor_of(scope, {DataType.FLOAT})
        zeros = types_at("QuantizeLinear", self.opset, 2) & set(self.palette)
        if not zeros:
            raise NothingFitsError
        to = self.random.choice(sorted(zeros, key=int))
        scale = onnx.helper.make_tensor("value", onnx.TensorProto.FLOAT, [], [0.5])
        step = self.add(scope, "Constant", [], Typed(DataType.FLOAT, 0), value=scale)
        zero = onnx.helper.make_tensor("value", int(to), [], [0])
        if to not in types_at("Constant", self.opset, output=True):
            raise NothingFitsError
        zero = self.add(scope, "Constant", [], Typed(to, 0), value=zero)
        rank = scope.values[source].rank
        codes = self.add(scope, "QuantizeLinear", [source, step, zero], Typed(to, rank))
        if self.random.random() < 0.7:
            self.add(scope, "DequantizeLinear", [codes, step, zero], Typed(DataType.FLOAT, rank))

    def sequence(self, scope: Scope) -> None:
        if self.opset < 11:
            raise NothingFitsError
        source = self.tensor_of(scope, frozenset(self.palette) - {DataType.BFLOAT16} & set(COMMON), 1)
        typed = scope.values[source]
        if typed.dtype not in COMMON:
            raise NothingFitsError
        other = self.cast_to(scope, typed.dtype, 1)
        sequence = self.add(scope, "SequenceConstruct", [source, other], Typed(typed.dtype, 1, "seq"))
        match self.random.choice(("at", "insert", "concat", "none")):
            case "at":
                index = self.index(scope, 1)
                self.add(scope, "SequenceAt", [sequence, index], typed)
            case "insert":
                self.add(scope, "SequenceInsert", [sequence, source], Typed(typed.dtype, 1, "seq"))
            case "concat":
                long = self.add(scope, "ConcatFromSequence", [sequence], Typed(typed.dtype, -1), axis=0)
                self.add(scope, "Gather", [long, self.fixed(scope, [0, 4, 2])], typed, axis=0)
            case _:
                pass

    def optional(self, scope: Scope) -> None:
        if self.opset < 15:
            raise NothingFitsError
        source = self.tensor_of(scope, set(COMMON))
        typed = scope.values[source]
        held = self.add(scope, "Optional", [source], Typed(typed.dtype, typed.rank, "opt"))
        if self.random.random() < 0.5:
            self.add(scope, "OptionalHasElement", [held], Typed(DataType.BOOL, 0))
        self.add(scope, "OptionalGetElement", [held], typed)

    def joined(self, scope: Scope) -> None:
        """Text: concatenated, or looked up."""
        source = self.tensor_of(scope, {DataType.STRING}, 1)
        if self.opset >= 20 and self.random.random() < 0.5:
            self.add(
                scope, "StringConcat", [source, self.cast_to(scope, DataType.STRING, 1)], Typed(DataType.STRING, 1)
            )
            return
        self.imports["ai.onnx.ml"] = 2
        attributes: dict[str, Any] = {"keys_strings": ["1", "0"], "values_floats": [1.5, 2.5], "default_float": 0.0}
        self.add(scope, "LabelEncoder", [source], Typed(DataType.FLOAT, 1), "ai.onnx.ml", **attributes)

    def call(self, scope: Scope) -> None:
        name = self.random.choice(sorted(scope.functions))
        takes, gives, has_type = scope.functions[name]
        inputs = [self.cast_to(scope, typed.dtype, typed.rank) for typed in takes]
        attributes: dict[str, Any] = {}
        if has_type:
            choices = [d for d in self.palette if d in types_at("Cast", self.opset, output=True) and d in COMMON]
            gives = Typed(self.random.choice(choices), gives.rank)
            attributes["to"] = int(gives.dtype)
        self.add(scope, name, inputs, gives, "local", **attributes)

    # Control flow

    def branches(self, scope: Scope) -> None:
        condition = self.cast_to(scope, DataType.BOOL, 0)
        dtype = self.random.choice([d for d in self.palette if d in COMMON])
        typed = Typed(dtype, self.random.choice((0, 1)))
        graphs: list[onnx.GraphProto] = []
        for label in ("then", "else"):
            inner = scope.inner()
            self.steps(inner, self.random.randint(1, 4))
            graphs.append(self.body(inner, label, [], [self.own(inner, typed)]))
        self.add(scope, "If", [condition], typed, then_branch=graphs[0], else_branch=graphs[1])

    def own(self, inner: Scope, typed: Typed) -> str:
        """A value of the type that the inner graph itself makes, as its outputs have to be."""
        outer = {name for node in inner.nodes for name in node.output}
        found = [name for name, each in inner.values.items() if name in outer and each == typed]
        if found and self.random.random() < 0.8:
            return self.random.choice(found)
        return self.add(inner, "Identity", [self.cast_to(inner, typed.dtype, typed.rank)], typed)

    def loop(self, scope: Scope) -> None:
        state = self.tensor_of(scope, set(COMMON))
        typed = scope.values[state]
        if typed.rank < 0:
            raise NothingFitsError
        trips = self.index(scope, self.random.randint(1, 3))
        inner = scope.inner()
        kinds = [Typed(DataType.INT64, 0), Typed(DataType.BOOL, 0), typed]
        inputs = self.formals(inner, kinds, scope)
        self.steps(inner, self.random.randint(1, 4))
        going = self.add(inner, "Identity", [inputs[1][0]], Typed(DataType.BOOL, 0))
        leaving = self.own(inner, typed)
        outputs = [going, leaving] + ([self.scanned(inner)] if self.random.random() < 0.5 else [])
        if len(set(outputs)) < len(outputs):
            raise NothingFitsError
        body = self.body(inner, "body", inputs, outputs)
        results = [self.name(scope) for _ in outputs[1:]]
        scope.nodes.append(onnx.helper.make_node("Loop", [trips, "", state], results, name="", body=body))
        scope.values[results[0]] = typed

    def scanned(self, inner: Scope) -> str:
        dtype = self.random.choice([d for d in self.palette if d in COMMON and d is not DataType.STRING])
        return self.own(inner, Typed(dtype, 0))

    def formals(self, inner: Scope, kinds: list[Typed], scope: Scope) -> list[tuple[str, Typed]]:
        made: list[tuple[str, Typed]] = []
        for typed in kinds:
            name = self.entering(inner, typed, scope)
            while name in dict(made):
                name = self.name(inner)
                inner.values[name] = typed
            made.append((name, typed))
        inner.values.update(dict(made))
        return made

    def scan(self, scope: Scope) -> None:
        if self.opset < 9:
            raise NothingFitsError
        state = self.tensor_of(scope, set(COMMON))
        row = self.tensor_of(scope, set(COMMON) - {DataType.STRING}, 1)
        kinds = [scope.values[state], Typed(scope.values[row].dtype, 0)]
        if kinds[0].rank < 0 or kinds[0].dtype is DataType.STRING:
            raise NothingFitsError
        inner = scope.inner()
        inputs = self.formals(inner, kinds, scope)
        self.steps(inner, self.random.randint(1, 3))
        outputs = [self.own(inner, kinds[0]), self.scanned(inner)]
        if len(set(outputs)) < 2:
            raise NothingFitsError
        typed = inner.values[outputs[1]]
        body = self.body(inner, "scanned", inputs, outputs)
        results = [self.name(scope) for _ in outputs]
        scope.nodes.append(onnx.helper.make_node("Scan", [state, row], results, body=body, num_scan_inputs=1))
        scope.values[results[0]] = kinds[0]
        scope.values[results[1]] = Typed(typed.dtype, 1)

    # The whole

    def function(self, name: str, known: Scope) -> onnx.FunctionProto:
        """A model-local function; one in two casts to a type that is an attribute of it."""
        scope = Scope({}, set(), functions=dict(known.functions), depth=1)
        kinds = [Typed(self.random.choice([d for d in self.palette if d in COMMON]), 1) for _ in range(2)]
        inputs: list[str] = []
        for typed in kinds:
            inputs.append(self.name(scope))
            scope.values[inputs[-1]] = typed
        self.steps(scope, self.random.randint(1, 4))
        has_type = self.random.random() < 0.5
        result = self.cast_to(scope, kinds[0].dtype, 1)
        gives = scope.values[result]
        output = self.add(scope, "Cast" if has_type else "Identity", [result], gives)
        if has_type:
            reference = onnx.AttributeProto(name="to", ref_attr_name="to", type=onnx.AttributeProto.INT)
            scope.nodes[-1].attribute.append(reference)
        known.functions[name] = (kinds, gives, has_type)
        opsets = [onnx.helper.make_opsetid(*each) for each in self.all_imports().items()]
        attributes = ["to"] if has_type else []
        return onnx.helper.make_function("local", name, inputs, [output], scope.nodes, opsets, attributes)

    def all_imports(self) -> dict[str, int]:
        return {"": self.opset, "local": 1, **self.imports}

    def model(self) -> onnx.ModelProto:
        random = self.random
        scope = Scope({}, set())
        oldest = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", self.opset)])
        ir_version = random.choice([oldest, oldest, max(oldest, 8), max(oldest, 10), 11 if oldest <= 11 else oldest])
        functions = (
            [self.function(name, scope) for name in ("f", "g")] if ir_version >= 8 and random.random() < 0.4 else []
        )
        inputs: list[onnx.ValueInfoProto] = []
        for index in range(random.randint(2, 4)):
            dtype = random.choice(self.palette) if index else DataType.FLOAT
            typed = Typed(dtype, random.choice((0, 1, 1, 2)))
            name = self.name(scope)
            scope.values[name] = typed
            inputs.append(self.info(name, typed, shaped=True))
        self.steps(scope, random.randint(3, 12))
        made = [name for node in scope.nodes for name in node.output if name in scope.values]
        results = sorted(set(made[-1:] + random.sample(made, min(len(made), 2))))
        outputs = [self.info(name, scope.values[name], shaped=True) for name in results]
        outputs += self.map_output(scope)
        if ir_version < 4 or random.random() < 0.3:
            inputs += [onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in self.initializers]
        graph = onnx.helper.make_graph(scope.nodes, "random", inputs, outputs, self.initializers)
        opsets = [onnx.helper.make_opsetid(*each) for each in self.all_imports().items()]
        model = onnx.helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=ir_version)
        return self.with_infos(model)

    def map_output(self, scope: Scope) -> list[onnx.ValueInfoProto]:
        """A sequence of maps, as classifiers give them, one time in eight."""
        if self.random.random() > 0.125 or self.opset < 9:
            return []
        source = self.cast_to(scope, DataType.FLOAT, 1)
        row = self.add(scope, "Reshape", [source, self.fixed(scope, [1, -1])], Typed(DataType.FLOAT, -1))
        self.imports["ai.onnx.ml"] = 2
        output = self.add(
            scope, "ZipMap", [row], Typed(DataType.FLOAT, -1, "map"), "ai.onnx.ml", classlabels_int64s=[3, 5, 7]
        )
        value = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
        kind = onnx.TypeProto()
        kind.sequence_type.elem_type.map_type.key_type = onnx.TensorProto.INT64
        kind.sequence_type.elem_type.map_type.value_type.CopyFrom(value)
        return [onnx.helper.make_value_info(output, kind)]

    def with_infos(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Value_info for all values, for some or for none."""
        share = self.random.choice((0.0, 0.5, 1.0))
        if not share:
            return model
        kept = [info for info in _inferred(model) if self.random.random() < share]
        model.graph.value_info.extend(kept)
        return model


def _inferred(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return what the inference of onnx says of all values.

    It is asked in a process of its own: there are valid models on which it ends in a segmentation fault, such as a
    function with a reference to an attribute in a Loop in an If; of those it says nothing.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_inferred, args=(model, sender), daemon=True)
    process.start()
    sender.close()
    try:
        return list(onnx.GraphProto.FromString(receiver.recv_bytes()).value_info)
    except EOFError:
        process.join()
        if process.exitcode == _REFUSED:
            raise onnx.shape_inference.InferenceError("the inference refuses the model") from None
        return []


def _send_inferred(model: onnx.ModelProto, sender: Connection) -> None:
    faulthandler.disable()
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except onnx.shape_inference.InferenceError:
        os._exit(_REFUSED)
    sender.send_bytes(onnx.GraphProto(value_info=inferred.graph.value_info).SerializeToString())
