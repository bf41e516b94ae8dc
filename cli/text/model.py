"""A model as text, one item a line: what `castsmith show` prints, for people and for the diffs of git.

The text follows from the graph alone: constants, attributes and metadata are sorted, and nodes come after those they
use, beginning with the first output, so that two files that order the same nodes differently give the same text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

import onnx
import onnx.checker
import onnx.printer
import onnx.shape_inference
import onnx_ir
from onnx_ir import AttributeType, DataType

from castsmith.analysis.inference.walk import known_types
from castsmith.ir.errors import ModelError
from castsmith.ir.io.protos import root_cause, tensors_of
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.text import Types, attribute_text, node_item, tensor_type_text, type_text
from castsmith.ir.walks import graphs_in, graphs_of, nodes_of, sources_first
from castsmith.verification.diff.tensors import digest

_MOST_ELEMENTS, _MOST_CHARACTERS, _DIGITS = 8, 200, 16

Scope = onnx_ir.Graph | onnx_ir.Function


def model_lines(model: onnx_ir.Model) -> Iterator[str]:
    """Yield the lines of the text.

    Constants of more than a few elements are shown by a digest of their bits; external data, whose file may be
    missing, by the place of the data.
    """
    types = known_types(model)
    yield f"ir_version: {model.ir_version}"
    yield from _imports(model.graph.opset_imports, "")
    yield from _entries("producer", {"name": model.producer_name, "version": model.producer_version}, "")
    yield from _entries("metadata", model.metadata_props, "")
    yield from _scope(model.graph, model.graph.name or "", types, "")
    for identifier in sorted(model.functions):
        function = model.functions[identifier]
        yield ""
        yield from _imports(function.opset_imports, "")
        yield from _scope(function, "function " + ".".join(filter(None, identifier)), types, "")


def proto_lines(proto: onnx.ModelProto) -> list[str]:
    """Return the ONNX text of a model that cannot be loaded, with a digest of each constant.

    Raises:
        ModelError: It cannot be written as text either.
    """
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    try:
        for tensor in tensors_of(shown):
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                _put_digest(tensor)
        return onnx.printer.to_text(shown).splitlines()
    except _UNPRINTABLE as error:
        raise ModelError(f"the model cannot be shown ({root_cause(error)}).") from None


_UNPRINTABLE = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError)


def _put_digest(tensor: onnx.TensorProto) -> None:
    bits = blake2b(tensor.SerializeToString(deterministic=True), digest_size=_DIGITS // 2).hexdigest()
    digest_only = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    digest_only.data_location = onnx.TensorProto.EXTERNAL
    digest_only.external_data.add(key="digest", value=bits)
    tensor.CopyFrom(digest_only)


def _imports(imports: Mapping[str, int], indent: str) -> Iterator[str]:
    versions = {"ai.onnx" if name in DEFAULT_DOMAINS else name: version for name, version in imports.items()}
    yield from (f"{indent}opset_import: {name} {versions[name]}" for name in sorted(versions))


def _entries(keyword: str, entries: Mapping[str, str | None], indent: str) -> Iterator[str]:
    yield from (f"{indent}{keyword} {_quoted(key)}: {_quoted(text)}" for key, text in sorted(entries.items()) if text)


def _scope(scope: Scope, title: str, types: Types, indent: str) -> Iterator[str]:
    """Yield the lines of a graph or function: its inputs, outputs, constants and nodes, with subgraphs."""
    inner = f"{indent}  "
    yield f"{indent}{title} {{"
    yield from (f"{inner}input {_value(value)}" for value in scope.inputs)
    yield from (f"{inner}output {_value(value)}" for value in scope.outputs)
    if isinstance(scope, onnx_ir.Graph):
        values = scope.initializers
        for name in sorted(values):
            tensor = values[name].const_value
            yield f"{inner}constant {name}: {type_text(values[name]) if tensor is None else _tensor(tensor)}"
    else:
        for name in sorted(scope.attributes):
            default = scope.attributes[name]
            yield f"{inner}parameter {name}{'' if default.value is None else f': {_attribute(default)}'}"
    for node in _ordered(scope):
        yield from _node(node, types, inner)
    yield f"{indent}}}"


def _value(value: onnx_ir.Value) -> str:
    return f"{value.name or '?'}: {type_text(value)}"


def _node(node: onnx_ir.Node, types: Types, indent: str) -> Iterator[str]:
    item = node_item(node, types)
    attributes = [node.attributes[name] for name in sorted(node.attributes)]
    defaults = ", ".join(
        f"{attribute.name} = {_attribute(attribute)}" for attribute in attributes if not graphs_in(attribute)
    )
    results = ", ".join(value.name or "?" for value in item.outputs)
    operands = ", ".join("" if value is None else value.name or "?" for value in item.inputs)
    called = f"{item.operator} <{defaults}>" if defaults else item.operator
    name = f"  [{node.name}]" if node.name else ""
    yield f"{indent}{results} = {called} ({operands})  # {item.comment}{name}"
    yield from _entries("metadata", node.metadata_props, f"{indent}  ")
    for attribute in attributes:
        for graph in graphs_in(attribute):
            yield from _scope(graph, f"{attribute.name} = {graph.name or ''}", types, f"{indent}  ")


def _attribute(attribute: onnx_ir.Attr) -> str:
    if attribute.value is None:  # a reference to a parameter of the function
        return attribute_text(attribute)
    match attribute.type:
        case AttributeType.TENSOR:
            return _tensor(attribute.as_tensor())
        case AttributeType.TENSORS:
            return f"[{', '.join(map(_tensor, attribute.as_tensors()))}]"
        case AttributeType.STRING:
            return _shortened(_quoted(attribute.value))
        case AttributeType.STRINGS:
            return _shortened(f"[{', '.join(map(_quoted, attribute.value))}]")
        case AttributeType.INTS | AttributeType.FLOATS:
            return _shortened(f"[{', '.join(map(str, attribute.value))}]")
        case _:
            return _shortened(attribute_text(attribute))


def _quoted(text: str | bytes) -> str:
    """Return the text in quotes; bytes that are not UTF-8 are escaped."""
    return json.dumps(text if isinstance(text, str) else text.decode(errors="backslashreplace"), ensure_ascii=False)


def _shortened(text: str) -> str:
    """Return the text; of a long one its beginning, and a digest of the whole, so that no change of it is lost."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}... blake2b {blake2b(text.encode(), digest_size=_DIGITS // 2).hexdigest()}"


def _tensor(tensor: onnx_ir.TensorProtocol) -> str:
    shape = tensor_type_text(tensor)
    if isinstance(tensor, onnx_ir.ExternalTensor):
        return f"{shape} in {_quoted(f'{tensor.location}')}, offset {tensor.offset or 0}{_length(tensor)}"
    if tensor.size > _MOST_ELEMENTS:
        return f"{shape} {{... blake2b {digest(tensor)[2].hex()[:_DIGITS]}}}"
    elements = tensor.numpy().ravel().tolist()
    text = map(_text, elements) if tensor.dtype == DataType.STRING else map(str, elements)
    return f"{shape} {{{', '.join(text)}}}"


def _length(tensor: onnx_ir.ExternalTensor) -> str:
    """Return the bytes of the tensor; nothing for texts, which no file holds."""
    return "" if tensor.dtype == DataType.STRING else f", {tensor.nbytes} bytes"


def _text(element: object) -> str:
    return _shortened(_quoted(element if isinstance(element, bytes) else str(element)))


def _ordered(scope: Scope) -> list[onnx_ir.Node]:
    """Return the nodes, each after those that it uses, beginning with those of the first output; unused ones last."""
    unused = sorted((node for node in scope if not any(value.uses() for value in node.outputs)), key=_key)
    roots = [producer for value in scope.outputs if (producer := value.producer()) is not None]
    inside, ordered = set(scope), dict[onnx_ir.Node, None]()

    def sources(node: onnx_ir.Node) -> list[onnx_ir.Node]:
        producers = [value.producer() for value in _used(node)]
        return [producer for producer in reversed(producers) if producer in inside]

    for root in (*roots, *unused):
        for node, _ in sources_first(root, ordered, sources) if root in inside else ():
            ordered[node] = None
    return list(ordered)


def _key(node: onnx_ir.Node) -> tuple[str, ...]:
    return (*(value.name or "" for value in node.outputs), node.op_type, node.name or "")


def _used(node: onnx_ir.Node) -> Iterable[onnx_ir.Value]:
    """Yield the operands of the node, and the values that its subgraphs use."""
    yield from (value for value in node.inputs if value is not None)
    for graph in graphs_of(node):
        for inner in nodes_of(graph):
            yield from (value for value in inner.inputs if value is not None)
        yield from graph.outputs
