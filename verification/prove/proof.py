"""Two models read as terms, and the outputs that are one term.

The rules are those by which certificates are checked. What verify adds: the promotion that the caller names, inputs and
outputs that the models hold in two types, and the term of each value, which tells where the models differ.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import onnx
import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.io.saving import light_proto
from castsmith.ir.ops.table import traits_of
from castsmith.ir.walks import all_nodes
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification import checker
from castsmith.verification.checker import Conversion, Term, Terms

_AS_WRITTEN, _BY_FUNCTIONS = "computed in the same way", "by functions known for every element"

_TRAINING = {"Dropout": 2, "BitmaskDropout": 2, "BiasDropout": 4, "BitmaskBiasDropout": 4}
"""Operators that draw random numbers if the operand at this place says so, ONNX Runtime's own among them."""

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Held:
    """The two types in which two models hold an input or an output. by_code: as bits, not as the same number."""

    a: DataType
    b: DataType
    by_code: bool


@dataclass
class Expressions:
    """The terms of one model.

    Attributes:
        outputs: The outputs by name.
        values: The terms of each value that a node takes or makes; in a function one for each call.
    """

    outputs: dict[str, Term] = field(default_factory=dict[str, Term])
    values: dict[onnx_ir.Value, set[Term]] = field(default_factory=dict[onnx_ir.Value, set[Term]])

    def of(self, node: onnx_ir.Node) -> set[Term]:
        """Return the terms of the first output of a node."""
        return self.values.get(node.outputs[0], set()) if node.outputs else set()

    @property
    def all(self) -> set[Term]:
        """The terms of all values."""
        return {term for terms in self.values.values() for term in terms}


@dataclass(frozen=True)
class Proof:
    """What is proven of two models, and their terms.

    Attributes:
        proven: The outputs that are equal for all inputs, each with the reason.
        ours: The terms of the first model.
        theirs: Those of the second.
    """

    proven: dict[str, str]
    terms: Terms
    ours: Expressions
    theirs: Expressions

    @classmethod
    def of_nothing(cls) -> Proof:
        """Return the proof of models that were not read."""
        return cls({}, Terms(0), Expressions(), Expressions())


def prove(
    a: onnx_ir.Model,
    b: onnx_ir.Model,
    *,
    rules: PromotionRules | None = None,
    nan_bits: bool = False,
    held: Mapping[str, Held] | None = None,
    pause: Callable[[], None] | None = None,
) -> Proof:
    """Compare the outputs of two models of one interface as terms.

    Args:
        rules: The promotion rules for operands that disagree.
        nan_bits: Another NaN is a difference; otherwise the bits of a NaN count only if an operator depends on them.
        held: The inputs and outputs that have two types.
        pause: Called before each node is read; what it raises ends the proof.
    """
    names = {value.name or "" for value in a.graph.outputs}
    try:
        sources = _Source(a), _Source(b)
        terms = Terms(2**22 + 16 * sum(source.elements for source in sources), _meaning_of)
        written = _read(sources, terms, None, pause, written=True)
        proven = dict.fromkeys(_alike(*written), _AS_WRITTEN) if not held else dict[str, str]()
        if proven.keys() == names:
            return Proof(proven, terms, *written)
        ours, theirs = _read(sources, terms, rules, pause, held or {})
    except (*checker.MALFORMED, ModelError):  # what no certificate supports, such as too many calls
        return Proof({}, Terms(0), _all_distinct(a), _all_distinct(b))
    alike = _alike(ours, theirs) if not nan_bits else set[str]()
    by_functions = (name for name in alike if not _sees_nan(ours.outputs[name]))
    return Proof({**dict.fromkeys(by_functions, _BY_FUNCTIONS), **proven}, terms, ours, theirs)


def _alike(a: Expressions, b: Expressions) -> set[str]:
    return {name for name, term in a.outputs.items() if b.outputs.get(name) is term}


def _sees_nan(term: Term) -> bool:
    """True if a part of the term may distinguish NaNs: an operator on bits, or one of which nothing is known."""
    stack, visited = [term], set[Term]()
    while stack:
        part = stack.pop()
        if part not in visited:
            visited.add(part)
            if part.op == "BitCast" or "." in part.op:
                return True
            stack += (arg for arg in part.args if arg is not None)
    return False


def _unlike_others(terms: Terms, term: Term | None = None) -> Term:
    """Return a term that equals no other, of the type and shape of this one."""
    kind = (0, None) if term is None else (term.dtype, term.shape)
    return terms.term("unknown", (), {}, kind, key=next(_NUMBERS))


def _all_distinct(model: onnx_ir.Model) -> Expressions:
    terms = Terms(0)
    values = {value: {_unlike_others(terms)} for node in all_nodes(model) for value in node.outputs}
    return Expressions({value.name or "": _unlike_others(terms) for value in model.graph.outputs}, values)


class _Source:
    """A model as onnx has it, without large weights, and its nodes there."""

    def __init__(self, model: onnx_ir.Model) -> None:
        self.proto, weights = light_proto(model)
        self.functions = {(checker.domain_of(f), f.name, f.overload): f for f in self.proto.functions}
        self.constants = {
            tensor.name: (weights[tensor.name].numpy() if tensor.name in weights else checker.elements_of(tensor))
            for tensor in self.proto.graph.initializer
        }
        self.types = {tensor.name: tensor.data_type for tensor in self.proto.graph.initializer}
        self.elements = sum(array.size for array in self.constants.values())
        bodies = (self.proto.graph.node, *(function.node for function in self.proto.functions))
        protos = itertools.chain.from_iterable(map(_all_protos, bodies))
        self.nodes = {id(proto): (proto, node) for proto, node in zip(protos, all_nodes(model), strict=True)}


def _all_protos(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes in the order of `all_nodes`: each is followed by those in its graphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _all_protos(graph.node)


def _read(
    sources: tuple[_Source, _Source],
    terms: Terms,
    rules: PromotionRules | None,
    pause: Callable[[], None] | None,
    held: Mapping[str, Held] | None = None,
    *,
    written: bool = False,
) -> tuple[Expressions, Expressions]:
    """Return both models as terms. written: as they are written, so that also the bits of a NaN are the same."""
    first, second = sources
    terms.is_first = True
    entering = _inputs(first, terms, {})
    ours = _Reader(first, terms, rules, pause, written=written).expressions(entering)
    terms.is_first = False
    numbers = held or {}
    others = _inputs(second, terms, entering)
    others |= {name: _converted(terms, entering[name], how, how.b) for name, how in numbers.items() if name in others}
    theirs = _Reader(second, terms, rules, pause, written=written).expressions(others)
    for name, how in numbers.items():
        if name not in ours.outputs or name not in theirs.outputs:
            continue
        if embeds(how.a, how.b):  # which no type does its codes
            ours.outputs[name] = _converted(terms, ours.outputs[name], how, how.b)
        else:
            theirs.outputs[name] = _converted(terms, theirs.outputs[name], how, how.a)
    return ours, theirs


def _inputs(source: _Source, terms: Terms, others: Mapping[str, Term]) -> dict[str, Term]:
    """Return the inputs as terms: those of another model, if they have the same types and defaults."""
    inputs = dict[str, Term]()
    for value in source.proto.graph.input:
        default = checker.digest(source.constants[value.name]) if value.name in source.constants else ""
        kind, other = checker.declared(value.type, value.name), others.get(value.name)
        same = other is not None and (other.dtype, other.attrs["default"]) == (kind[0], default)
        own = terms.term("input", (), {"default": default}, kind, key=(value.name, *kind))
        inputs[value.name] = other if other is not None and same else own
    return inputs


def _converted(terms: Terms, term: Term, how: Held, to: DataType) -> Term:
    """Return what one model holds in the type of the other."""
    if not how.by_code:
        return terms.cast(term, Conversion(int(to)))
    result = terms.bits(term, int(to)) if to is how.b else terms.decoded(term, int(to))
    return _unlike_others(terms) if result is None else result


class _Reader(checker.Reader):
    """Reads one model, and notes the term of each value."""

    def __init__(
        self,
        source: _Source,
        terms: Terms,
        rules: PromotionRules | None,
        pause: Callable[[], None] | None,
        *,
        written: bool,
    ) -> None:
        graph = source.proto.graph
        super().__init__(terms, {v.name: v.type for v in (*graph.value_info, *graph.output)} if terms.is_first else {})
        self.source, self.rules, self.pause, self.written = source, rules, pause, written
        self.read = Expressions()

    def expressions(self, inputs: Mapping[str, Term]) -> Expressions:
        """Return the terms of the model, for these of its inputs."""
        proto, source = self.source.proto, self.source
        env: checker.Env = ChainMap(dict(inputs))
        for name in source.constants.keys() - inputs.keys():
            env[name] = self.terms.constant(source.constants[name], source.types[name])
        opsets = {checker.domain_of(entry): entry.version for entry in proto.opset_import}
        names = [value.name for value in proto.graph.output]
        self.nodes([*proto.graph.node], env, checker.Scope(opsets, source.functions, {}), names)
        self.read.outputs = {name: checker.looked_up(env, name) for name in names}
        return self.read

    def node(self, node: onnx.NodeProto, env: checker.Env, scope: checker.Scope) -> list[Term]:
        if self.pause is not None:
            self.pause()
        results, (_, own) = super().node(node, env, scope), self.source.nodes[id(node)]
        if _draws(node, scope):
            results = [_unlike_others(self.terms, term) for term in results]
        operands = [env.get(name) for name in node.input]
        for value, term in (*zip(own.inputs, operands, strict=True), *zip(own.outputs, results, strict=False)):
            if value is not None and term is not None:
                self.read.values.setdefault(value, set()).add(term)
        return results

    def place(self, node: onnx.NodeProto, scope: checker.Scope) -> tuple[str, ...]:
        """Operators of which nothing is known give the same for the same operands; draws are told apart by `node`."""
        del node, scope
        return ()

    def results(self, call: checker.Call) -> list[Term]:
        if not self.written:
            return call.results()
        first = call.args[0] if call.args else None
        same = call.identity(first) if first is not None and call.node.op_type in ("Identity", "Dropout") else None
        return call.without_rule() if same is None or call.domain else [same]

    def promoted(self, args: list[Term | None], schema: onnx.defs.OpSchema) -> list[Term | None]:
        """Return the operands that one type variable binds in their common type, if they differ and it exists.

        It may depend on whether an operand is written as a constant, which terms do not tell: such operands equal none.
        """
        rules, formals = self.rules, [checker.port_at(schema.inputs, place) for place in range(len(args))]
        variables = {constraint.type_param_str for constraint in schema.type_constraints}
        for variable in variables if rules is not None else ():
            bound = {at: arg for at, arg in enumerate(args) if arg is not None and formals[at].type_str == variable}
            types = {arg.dtype for arg in bound.values()}
            if len(types) < 2 or 0 in types or not all(formals[at].is_homogeneous for at in bound):
                continue
            weak = rules is not None and (rules.weak_scalars or rules.half_constants)
            if weak and any(arg.is_constant for arg in bound.values()):
                return [arg and _unlike_others(self.terms, arg) for arg in args]
            common = _common_type(types, rules)
            for at, arg in bound.items() if common is not None else ():
                args = [*args[:at], self.terms.cast(arg, Conversion(int(common or 0))), *args[at + 1 :]]
        return args


def _common_type(types: Iterable[int], rules: PromotionRules | None) -> DataType | None:
    """Return the type to which operands of these types are promoted, whatever their rank; None if it is not known."""
    if rules is None or rules.pytorch_scalar_promotion:
        return None
    try:
        return common_type([(DataType(dtype), 1) for dtype in types], rules)
    except PromotionError:
        return None


def _draws(node: onnx.NodeProto, scope: checker.Scope) -> bool:
    """True if the node draws random numbers without a seed."""
    mode = _TRAINING.get(node.op_type, len(node.input))
    training = mode < len(node.input) and bool(node.input[mode])
    stated = {proto.name for proto in node.attribute if checker.resolved(proto, scope) is not None}
    return (training or traits_of(node.domain, node.op_type).random) and "seed" not in stated


@cache
def _meaning_of(schema: onnx.defs.OpSchema) -> int:
    """Return the first version since which the parameters of an operator are unchanged, and its meaning with them."""
    revised = traits_of(schema.domain, schema.name).revised
    while not revised and onnx.defs.has(schema.name, schema.since_version - 1, schema.domain):
        earlier = onnx.defs.get_schema(schema.name, schema.since_version - 1, schema.domain)
        if _parameters(earlier) != _parameters(schema):
            break
        schema = earlier
    return schema.since_version


def _parameters(schema: onnx.defs.OpSchema) -> object:
    """Return the inputs, outputs and attributes of an operator; its allowed types do not change its meaning."""
    sides = [[(port.type_str, port.option) for port in side] for side in (schema.inputs, schema.outputs)]
    later = traits_of(schema.domain, schema.name).later
    attributes = sorted(
        (name, kind.required, kind.default_value.SerializeToString())
        for name, kind in schema.attributes.items()
        if name not in later
    )
    return sides, attributes
