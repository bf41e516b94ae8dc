"""Random models of casts and moves, rewritten by the passes or not, with one thing in them changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import numpy as np
import onnx
import onnx.helper
import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.pipeline import optimize
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.types import element_type, type_name
from castsmith.verification.run import verify

TYPES = (
    *(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE, DataType.INT8, DataType.UINT8),
    *(DataType.INT16, DataType.INT32, DataType.INT64, DataType.BOOL, DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2),
    *(DataType.FLOAT8E4M3FNUZ, DataType.FLOAT8E5M2FNUZ),
)
SOURCES = (DataType.FLOAT, DataType.FLOAT16, DataType.INT8, DataType.INT32, DataType.DOUBLE, DataType.UINT8)
MOVES = (
    "t = Transpose <perm = [1, 0]> ({})",
    "t = Identity ({})",
    "t = Reshape ({}, flat)",
    "t = Concat <axis = 0> ({0}, {0})",
)
OTHERS = ("t = Neg ({})", "t = Sqrt ({})", "t = Softmax ({})")
TARGETS = (None, None, "onnxruntime-android", "onnxruntime-cpu")


def chain(random: Random) -> onnx.ModelProto:
    """A model that casts its input several times, with moves and a few other operators between."""
    source = random.choice(SOURCES)
    lines: list[str] = []
    name, dtype = "x", source
    for index in range(random.randint(2, 5)):
        kind = random.random()
        if kind < 0.65:
            dtype = random.choice(TYPES)
            narrow = dtype.name.startswith("FLOAT8")
            saturate = ", saturate = 0" if narrow and random.random() < 0.4 else ""
            line = f"t = Cast <to = {int(dtype)}{saturate}> ({name})"
        elif kind < 0.9 or dtype not in (DataType.FLOAT, DataType.DOUBLE):
            line = random.choice(MOVES).format(name)
        else:
            line = random.choice(OTHERS).format(name)
        name = f"t{index}"
        lines.append(line.replace("t =", f"{name} =", 1))
    ends = f"({type_name(source)}[100, 3] x) => ({type_name(dtype)}[A, B] y)"
    text = f"""<ir_version: 10, opset_import: ["" : 23]> g {ends}
        <int64[2] flat = {{-1, 3}}> {{ {" ".join(lines)} y = Identity ({name}) }}"""
    return onnx.parser.parse_model(text)


def rewritten(model: onnx.ModelProto, random: Random) -> onnx.ModelProto:
    """Return the result of the passes for the model, with or without a target."""
    result = optimize(model, target=random.choice(TARGETS), provenance=False)
    return onnx_ir.to_proto(result.model)


def rewrites(first: int = 0) -> Iterator[tuple[onnx.ModelProto, onnx.ModelProto]]:
    """Models and what the passes make of them."""
    for seed in itertools.count(first):
        random = Random(seed)
        model = chain(random)
        yield model, rewritten(model, random)


def mutants(first: int = 0) -> Iterator[tuple[int, onnx.ModelProto, onnx.ModelProto, str]]:
    """Rewrites with one thing changed that changes an element of the output: seed, model, mutant, change.

    That it does is found by execution; a change of the type or the shape of the output would be too easy.
    """
    for seed in itertools.count(first):
        random = Random(seed)
        model = chain(random)
        other = rewritten(model, random)
        for _ in range(3):
            mutant = onnx.ModelProto()
            mutant.CopyFrom(other)
            what = mutate(mutant, random)
            if what and changes_an_element(model, mutant):
                yield seed, model, mutant, what
                break


def changes_an_element(model: onnx.ModelProto, mutant: onnx.ModelProto) -> bool:
    """True if execution finds a different element of the output."""
    try:
        mismatch = verify(model, mutant, sets=4, engine="reference").mismatch
    except PromotionError:  # a cast to another type leaves operands of two types
        return False
    return mismatch is not None and bool(mismatch.difference.index)


def mutate(model: onnx.ModelProto, random: Random) -> str:
    """Change one thing of the model; what it was, or nothing where there is nothing to change."""
    casts = [node for node in model.graph.node if node.op_type == "Cast"]
    changes = ["constant"] if model.graph.initializer else []
    changes += ["type", "saturate", "order"] if casts else []
    changes += ["perm"] if any(node.op_type == "Transpose" for node in model.graph.node) else []
    changes += ["shift"] if any(node.op_type == "BitShift" for node in model.graph.node) else []
    if not changes:
        return ""
    change = random.choice(changes)
    if change == "constant":
        return _constant(model, random)
    if change == "perm":
        node = random.choice([node for node in model.graph.node if node.op_type == "Transpose"])
        node.op_type = "Identity"
        del node.attribute[:]
        return "a transposition is gone"
    if change == "shift":
        node = random.choice([node for node in model.graph.node if node.op_type == "BitShift"])
        for attribute in node.attribute:
            attribute.s = b"LEFT" if attribute.s == b"RIGHT" else b"RIGHT"
        return "a shift goes the other way"
    node = random.choice(casts)
    if change == "saturate":
        kept = [attribute for attribute in node.attribute if attribute.name != "saturate"]
        flipped = 1 if len(kept) < len(node.attribute) and not node.attribute[-1].i else 0
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute("saturate", flipped)])
        return "saturate is flipped"
    if change == "order":
        return _swapped(model, node)
    to = next(attribute for attribute in node.attribute if attribute.name == "to")
    near = [
        dtype for dtype in TYPES if abs(element_type(dtype).bits - DataType(to.i).bitwidth) <= 16 and int(dtype) != to.i
    ]
    to.i = int(random.choice(near))
    return "a cast to another type"


def _constant(model: onnx.ModelProto, random: Random) -> str:
    """One bit of one element of a constant."""
    tensor = random.choice(list(model.graph.initializer))
    array = np.frombuffer(tensor.raw_data, np.uint8).copy() if tensor.raw_data else None
    if array is None or not array.size:
        return ""
    array[random.randrange(array.size)] ^= np.uint8(1 << random.randrange(8))
    tensor.raw_data = array.tobytes()
    return "a bit of a constant"


def _swapped(model: onnx.ModelProto, node: onnx.NodeProto) -> str:
    """The cast moved past the node that makes its operand, whatever that does."""
    maker = next((other for other in model.graph.node if node.input[0] in other.output), None)
    users = [other for other in model.graph.node if maker is not None and maker.output[0] in other.input]
    if maker is None or maker.op_type == "Cast" or len(users) > 1 or len(maker.input) != 1:
        return ""
    copies = [onnx.NodeProto(), onnx.NodeProto()]
    copies[0].CopyFrom(maker)
    copies[1].CopyFrom(node)
    middle = maker.output[0]
    copies[1].input[0], copies[1].output[0] = copies[0].input[0], middle
    copies[0].input[0], copies[0].output[0] = middle, node.output[0]
    maker.CopyFrom(copies[1])
    node.CopyFrom(copies[0])
    return "a cast moved past another node"
