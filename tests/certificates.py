"""Certificates of one step between two models, and models and certificates that were tampered with."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import TensorProto

from castsmith.verification import checker


def sealed(certificate: dict[str, Any]) -> dict[str, Any]:
    """The certificate with the hash of what it says now: a forger can compute it too."""
    return {**certificate, "sha256": checker.sealed(certificate)}


def certificate_between(before: onnx.ModelProto, after: onnx.ModelProto) -> dict[str, Any]:
    """A certificate whose only step is the whole difference between the models."""
    first, last = checker.state_of(before, {}), checker.state_of(after, {})
    step = {"pass": "forged", "rewrites": [], "edit": checker.edit_between(first, last)}
    return sealed({"format": checker.FORMAT, "constants": {}, "steps": [step]})


def is_certified(
    reader: checker.Checker, before: onnx.ModelProto, first: checker.Model, after: onnx.ModelProto
) -> bool:
    """True if a certificate of one step would be accepted, from a model that was read already."""
    try:
        model = reader.read(checker.state_of(after, reader.constants))
        return not reader.differing(first, model) and not any(checker.doubts(before, after, first, model).values())
    except checker.MALFORMED:
        return False


def _one_ulp(model: onnx.ModelProto, random: Random) -> bool:
    """Change one element of a constant by one ulp or 1."""
    tensors = [tensor for tensor in model.graph.initializer if tensor.dims != [0]]
    tensors += [attribute.t for node in _all_nodes(model) for attribute in node.attribute if attribute.HasField("t")]
    tensors = [
        tensor
        for tensor in tensors
        if tensor.data_type in (1, 2, 3, 6, 7, 9, 10, 11, 12, 13) and np.prod(tensor.dims) > 0
    ]
    if not tensors:
        return False
    tensor = random.choice(tensors)
    array = onnx.numpy_helper.to_array(tensor).copy()
    place = random.randrange(array.size)
    flat = array.reshape(-1)
    flat[place] = np.nextafter(flat[place], flat.dtype.type(3)) if array.dtype.kind == "f" else flat[place] ^ 1
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return True


def _node(model: onnx.ModelProto, random: Random, fits: Callable[[onnx.NodeProto], bool]) -> onnx.NodeProto | None:
    nodes = [node for node in _all_nodes(model) if fits(node)]
    return random.choice(nodes) if nodes else None


def _graphs(model: onnx.ModelProto) -> list[onnx.GraphProto | onnx.FunctionProto]:
    """The graph of the model, its functions, and all their bodies."""
    graphs: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    for graph in graphs:  # which grows
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return graphs


def _all_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for graph in _graphs(model) for node in graph.node]


def _cast_type(model: onnx.ModelProto, random: Random) -> bool:
    node = _node(model, random, lambda node: node.op_type == "Cast")
    if node is None:
        return False
    attribute = next(attribute for attribute in node.attribute if attribute.name == "to")
    attribute.i = random.choice([dtype for dtype in (1, 3, 6, 7, 10, 11, 16, 17) if dtype != attribute.i])
    return True


def _saturate(model: onnx.ModelProto, random: Random) -> bool:
    node = _node(
        model, random, lambda node: node.op_type == "Cast" and any(a.i in (17, 18, 19, 20) for a in node.attribute)
    )
    if node is None:
        return False
    kept = [attribute for attribute in node.attribute if attribute.name != "saturate"]
    flipped = len(kept) == len(node.attribute)
    del node.attribute[:]
    node.attribute.extend(kept)
    if flipped:
        node.attribute.append(onnx.helper.make_attribute("saturate", 0))
    return True


def _swapped_inputs(model: onnx.ModelProto, random: Random) -> bool:
    asymmetric = ("Sub", "Div", "Pow", "MatMul", "Concat", "Less", "Greater")
    node = _node(model, random, lambda node: node.op_type in asymmetric and len({*node.input[:2]}) == 2)
    if node is None:
        return False
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return True


def _dropped_node(model: onnx.ModelProto, random: Random) -> bool:
    node = _node(
        model, random, lambda node: len(node.input) == 1 and len(node.output) == 1 and node.op_type != "Identity"
    )
    if node is None:
        return False
    node.op_type, node.domain = "Identity", ""
    del node.attribute[:]
    return True


def _axis(model: onnx.ModelProto, random: Random) -> bool:
    node = _node(model, random, lambda node: any(attribute.name in ("axis", "perm") for attribute in node.attribute))
    if node is None:
        return False
    attribute = next(attribute for attribute in node.attribute if attribute.name in ("axis", "perm"))
    if attribute.name == "axis":
        attribute.i = attribute.i - 1 if attribute.i else 1
    else:
        attribute.ints[:] = [attribute.ints[-1], *attribute.ints[:-1]] if len(set(attribute.ints)) > 1 else [1, 0]
    return True


def _rewired(model: onnx.ModelProto, random: Random) -> bool:
    """Let a node read another value that is made before it: a name that was captured."""
    places = [index for index, node in enumerate(model.graph.node) if node.input and index]
    if not places:
        return False
    index = random.choice(places)
    earlier = [name for node in model.graph.node[:index] for name in node.output if name]
    earlier += [value.name for value in model.graph.input]
    node = model.graph.node[index]
    place = random.randrange(len(node.input))
    others = [name for name in earlier if name != node.input[place]]
    if not others:
        return False
    node.input[place] = random.choice(others)
    return True


def _captured(model: onnx.ModelProto, random: Random) -> bool:
    """Let a name in a body mean another value: one of around it, or one that hides it."""
    bodies = [graph for graph in _graphs(model) if isinstance(graph, onnx.GraphProto) and graph is not model.graph]
    bodies = [graph for graph in bodies if graph.node]
    if not bodies:
        return False
    body = random.choice(bodies)
    around = [value.name for value in model.graph.input] + [name for node in model.graph.node for name in node.output]
    inside = [name for node in body.node for name in node.output] + [value.name for value in body.input]
    node = random.choice(body.node)
    kind = random.choice(("around", "hidden", "result", "initializer"))
    if kind == "around" and node.input:
        node.input[random.randrange(len(node.input))] = random.choice(around)
    elif kind == "hidden" and node.output:
        node.output[0] = random.choice(around)
    elif kind == "result" and body.output:
        random.choice(body.output).name = random.choice(around + inside)
    else:
        value = np.array(random.choice((0, 1, 2)), random.choice((np.float32, np.int64, np.bool_)))
        body.initializer.append(onnx.numpy_helper.from_array(value, random.choice(around + inside)))
    return True


def _facts(model: onnx.ModelProto, random: Random) -> bool:
    """State something else of the types, shapes, opsets or functions."""
    kind = random.choice(("input", "output", "inner", "opset", "default", "function", "twice"))
    values = {"input": model.graph.input, "output": model.graph.output, "inner": model.graph.value_info}.get(kind)
    if values is not None:
        tensors = [value.type.tensor_type for value in values if value.type.HasField("tensor_type")]
        if not tensors:
            return False
        tensor = random.choice(tensors)
        if tensor.shape.dim and random.random() < 0.6:
            dim = random.choice(tensor.shape.dim)
            if random.random() < 0.5:
                dim.dim_value = max(1, dim.dim_value + random.choice((-1, 1)))
            else:
                dim.dim_param = random.choice(("N", "batch", "other"))
        else:
            tensor.elem_type = random.choice([dtype for dtype in (1, 2, 6, 7, 10, 11) if dtype != tensor.elem_type])
    elif kind == "opset":
        entry = random.choice(model.opset_import)
        entry.version = max(1, entry.version + random.choice((-6, -3, -1, 1, 3)))
    elif kind == "default" and model.graph.initializer:
        tensor = random.choice(model.graph.initializer)
        model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    elif kind == "function" and model.functions:
        function = random.choice(model.functions)
        random.choice((function.input, function.output)).append("other")
    elif kind == "twice" and model.graph.node:
        entries: Any = random.choice((model.graph.initializer, model.functions, model.opset_import, model.graph.node))
        if not entries:
            return False
        again = random.choice(entries)
        entries.add().CopyFrom(again)
    else:
        return False
    return True


def _output(model: onnx.ModelProto, random: Random) -> bool:
    """Let an output be made by another node, by exchanging the names of two results."""
    made = [node for node in model.graph.node if node.output and node.output[0]]
    ends = {value.name for value in model.graph.output}
    last = [node for node in made if node.output[0] in ends]
    others = [node for node in made if node.output[0] not in ends]
    if not last or not others:
        return False
    one, other = random.choice(last), random.choice(others)
    one.output[0], other.output[0] = other.output[0], one.output[0]
    return True


TAMPERS = (_one_ulp, _cast_type, _saturate, _swapped_inputs, _dropped_node, _axis, _rewired, _captured, _facts, _output)


def tampered(model: onnx.ModelProto, random: Random) -> tuple[str, onnx.ModelProto] | None:
    """The model with one thing changed, and what; None if nothing was found to change."""
    for tamper in random.sample(TAMPERS, len(TAMPERS)):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        if tamper(copy, random):
            return tamper.__name__.strip("_"), copy
    return None


def forged(
    certificate: dict[str, Any], random: Random, first: checker.State, last: checker.State
) -> tuple[str, dict[str, Any]]:
    """The certificate between two models with one thing changed, and what; sealed again, or not."""
    copy: dict[str, Any] = json.loads(json.dumps(certificate))
    steps = copy["steps"]
    step = random.choice(steps)["edit"] if steps else {"drop": [], "put": {}}
    kind = random.choice(("rule", "drop", "put", "constant", "text", "fact", "order", "seal"))
    if kind == "drop" and step["drop"]:
        step["drop"].pop(random.randrange(len(step["drop"])))
    elif kind == "put" and step["put"]:
        step["put"].pop(random.choice(list(step["put"])))
    elif kind == "text" and step["put"]:
        key = random.choice(list(step["put"]))
        text = step["put"][key]
        place = random.randrange(len(text))
        step["put"][key] = text[:place] + random.choice("ABCabc019") + text[place + 1 :]
    elif kind == "constant" and copy["constants"]:
        key = random.choice(list(copy["constants"]))
        tensor = TensorProto.FromString(base64.b64decode(copy["constants"][key]))
        if not tensor.raw_data:
            return "seal", {**copy, "sha256": copy["sha256"][::-1]}
        tensor.raw_data = bytes([tensor.raw_data[0] ^ 1]) + tensor.raw_data[1:]
        copy["constants"][key] = base64.b64encode(tensor.SerializeToString()).decode()
    elif kind == "fact" and any(name.startswith(("input ", "output ", "opset ")) for name in first):
        name = random.choice([name for name in first if name.startswith(("input ", "output ", "opset "))])
        wrong = first[name] + "1" if name.startswith("opset ") else first[name].replace(" ", "x ", 1)
        steps.insert(0, {"pass": "forged", "rewrites": [], "edit": {"drop": [], "put": {name: wrong}}})
        back = {"drop": [], "put": {name: last[name]}} if name in last else {"drop": [name], "put": {}}
        steps.append({"pass": "forged", "rewrites": [], "edit": back})
    elif kind == "order" and len(steps) > 1:
        steps.reverse()
        return kind, copy
    elif kind == "rule" and any(each["rewrites"] for each in steps):
        next(each["rewrites"] for each in steps if each["rewrites"])[0]["rule"] += "!"
        return kind, copy
    else:
        return "seal", {**copy, "sha256": copy["sha256"][::-1]}
    return kind, sealed(copy)
