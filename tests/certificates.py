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


def _one_ulp(model: onnx.ModelProto, random: Random) -> bool:
    """Change one element of a constant by one ulp or 1."""
    tensors = [tensor for tensor in model.graph.initializer if tensor.dims != [0]]
    tensors += [
        node.attribute[0].t
        for node in model.graph.node
        if node.op_type == "Constant" and node.attribute[0].HasField("t")
    ]
    tensors = [tensor for tensor in tensors if tensor.data_type in (1, 2, 3, 6, 7, 9, 10, 11, 12, 13) and np.prod(tensor.dims) > 0]
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
    nodes = [node for node in model.graph.node if fits(node)]
    return random.choice(nodes) if nodes else None


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


TAMPERS = (_one_ulp, _cast_type, _saturate, _swapped_inputs, _dropped_node, _axis, _rewired, _output)


def tampered(model: onnx.ModelProto, random: Random) -> tuple[str, onnx.ModelProto] | None:
    """The model with one thing changed, and what; None if nothing was found to change."""
    for tamper in random.sample(TAMPERS, len(TAMPERS)):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        if tamper(copy, random):
            return tamper.__name__.strip("_"), copy
    return None


def forged(certificate: dict[str, Any], random: Random) -> tuple[str, dict[str, Any]]:
    """The certificate with one thing changed, and what; sealed again, or not."""
    copy: dict[str, Any] = json.loads(json.dumps(certificate))
    steps = copy["steps"]
    step = random.choice(steps)["edit"] if steps else {"drop": [], "put": {}}
    kind = random.choice(("rule", "drop", "put", "constant", "text", "order", "seal"))
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
        tensor.raw_data = tensor.raw_data[::-1]
        copy["constants"][key] = base64.b64encode(tensor.SerializeToString()).decode()
    elif kind == "order" and len(steps) > 1:
        steps.reverse()
        return kind, copy
    elif kind == "rule" and any(each["rewrites"] for each in steps):
        next(each["rewrites"] for each in steps if each["rewrites"])[0]["rule"] += "!"
        return kind, copy
    else:
        return "seal", {**copy, "sha256": copy["sha256"][::-1]}
    return kind, sealed(copy)
