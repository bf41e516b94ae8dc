"""Mutants of models through every command: no internal error, no traceback, no file left after a failure.

Bytes and fields are changed at random, and `tests.graphs.oddities` makes the changes that mean something.
`python -m tests.soak.mutants` makes many.
"""

from __future__ import annotations

import contextlib
import io
import random
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx.checker
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from castsmith.cli.main import main
from tests.graphs.oddities import odd

MODELS = sorted((Path(__file__).parents[3] / "models").glob("*.onnx"))
SMALL = 200_000
"""Bytes of the largest model that is mutated."""

SLOW = 20.0
"""Seconds of the processor after which a command is reported."""

INTEGERS = (0, 1, -1, 2, 3, 7, 8, 14, 17, 22, 23, 25, 99, 127, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63))
SMALL_INTEGERS = (0, 1, -1, 2, 3, 8, 14, 16, 22, 25, 99, 2**31 - 1, -(2**31))
TEXTS = (
    "",
    "x",
    "y",
    "Cast",
    "If",
    "Loop",
    "Constant",
    "ai.onnx",
    "../a",
    "a\0b",
    "/etc/passwd",
    "é",
    "18446744073709551616",
)
NUMBERS = (0.0, -1.0, 1e38, float("inf"), float("nan"))
Field = Any
"""A FieldDescriptor of whichever implementation protobuf has."""

Change = Callable[[bytes, random.Random], bytes]


def flipped(data: bytes, draw: random.Random) -> bytes:
    """The bytes with some of them changed, left out or added."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 2, 5, 20))):
        at, kind = draw.randrange(len(changed)), draw.random()
        if kind < 0.6:
            changed[at] = draw.randrange(256)
        else:
            changed[at : at + (kind < 0.8)] = bytes(draw.randrange(256) for _ in range(draw.randrange(8)))
    return bytes(changed)


def restructured(data: bytes, draw: random.Random) -> bytes:
    """The model with some of its fields changed, cleared, doubled or filled, at any depth."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        change_field(draw.choice(list(messages(model, draw))), draw)
    return model.SerializeToString()


def messages(message: Message, draw: random.Random) -> Iterator[Message]:
    """The message and those in it; of long lists a few."""
    yield message
    for field, value in message.ListFields():
        if isinstance(value, Message):
            yield from messages(value, draw)
        elif field.message_type is not None:
            for each in draw.sample(list(value), min(len(value), 6)):
                yield from messages(each, draw)


def change_field(message: Message, draw: random.Random) -> None:
    present = [field for field, _ in message.ListFields()]
    field = draw.choice(present if present and draw.random() < 0.75 else list(message.DESCRIPTOR.fields))
    value = getattr(message, field.name)
    if draw.random() < 0.15:
        message.ClearField(field.name)
    elif field.message_type is not None:
        change_messages(message, field, draw)
    elif isinstance(value, str | bytes | int | float):
        with contextlib.suppress(ValueError):  # out of the range of the field
            setattr(message, field.name, scalar(field, draw))
    else:
        with contextlib.suppress(ValueError):
            if len(value) and draw.random() < 0.6:
                value[draw.randrange(len(value))] = scalar(field, draw)
            else:
                value.extend([scalar(field, draw)] * draw.choice((1, 1, 2, 70)))


def change_messages(message: Message, field: Field, draw: random.Random) -> None:
    value = getattr(message, field.name)
    if isinstance(value, Message):
        value.SetInParent()
        change_field(value, draw)
    elif not len(value) or draw.random() < 0.3:
        change_field(value.add(), draw)
    elif draw.random() < 0.5:
        value.add().CopyFrom(draw.choice(value))
    else:
        del value[draw.randrange(len(value))]


def scalar(field: Field, draw: random.Random) -> str | bytes | int | float:
    if field.type == FieldDescriptor.TYPE_STRING:
        return draw.choice(TEXTS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw.choice((b"", b"\xff\xfe", b"x", bytes(4), bytes(64)))
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return draw.choice(NUMBERS)
    if field.enum_type is not None:
        return draw.choice(field.enum_type.values).number
    return draw.choice(SMALL_INTEGERS if field.type == FieldDescriptor.TYPE_INT32 else INTEGERS)


def external(data: bytes, draw: random.Random) -> bytes:
    """The model with a tensor in a data file, by an entry of which a part is wrong."""
    model = onnx.ModelProto.FromString(data)
    if not model.graph.initializer:
        return restructured(data, draw)
    tensor = draw.choice(model.graph.initializer)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    places = ("w.bin", "w.bin", "loop.bin", "a\0b", "", ".", "sub/../w.bin", "m.onnx", "x" * 300)
    entries = {
        "location": draw.choice(places),
        "offset": draw.choice(("0", "4", "-1", "x", "²", "1e3", str(2**63), "")),
        "length": draw.choice((str(len(tensor.raw_data)), "0", "-4", "y", str(2**80))),
    }
    for key in draw.sample(sorted(entries), draw.choice((1, 2, 3))):
        tensor.external_data.add(key=key, value=entries[key])
    if draw.random() < 0.8:
        tensor.ClearField("raw_data")
    return model.SerializeToString()


def as_text(data: bytes, draw: random.Random) -> bytes:
    """The model as ONNX text that is not UTF-8, or nests, in part."""
    text = onnx.printer.to_text(onnx.ModelProto.FromString(data)).encode()
    at = draw.randrange(len(text))
    return text[:at] + draw.choice((b"\xff\xfe", b"{" * 2000, b"(" * 2000, b"[" * 2000, b"\0")) + text[at:]


CHANGES: tuple[Change, ...] = (flipped, restructured, restructured, external, as_text, odd, odd, odd, odd)


OPTIONS = (
    ("--narrow", "int64", "--narrow-interface"),
    ("--narrow", "double"),
    ("--interface", "wide", "--storage", "byte", "--emit-functions"),
    ("--fold-as", "onnxruntime", "--fold-quantized"),
    ("--promotion", "torch", "--pytorch-scalar-promotion"),
    ("--keep-output-types", "--json"),
)
CONVERSIONS = ((), ("--target", "tensorrt-10"), ("--io", "convert"), ("--measure",))


def commands(path: Path, original: Path, output: Path, draw: random.Random) -> list[list[str]]:
    """Run a mutant through the commands."""
    target = draw.choice(("onnxruntime-cpu", "onnxruntime-android", "tensorrt-10", "openvino-cpu", "onnx-mlir"))
    optimize = ["optimize", str(path), "-o", str(output), "--promote-unsafe"]
    ways = [optimize, [*optimize, "--target", target], [*optimize, "--external-data", "out.data", "--json"]]
    ways.append([*optimize, "--target", target, "--diff=full", "--explain", *draw.choice(OPTIONS)])
    to = draw.choice(("float16", "bfloat16", "float"))
    convert = ["convert", str(path), "-o", str(output), "--to", to, "--explain", *draw.choice(CONVERSIONS)]
    return [
        *ways,
        convert,
        ["bounds", str(path), "--to", to, "--all"],
        ["check", str(path)],
        ["check", str(path), "--target", target],
        ["show", str(path)],
        ["diff", str(path), str(original)],
        ["verify", str(original), str(path), "--sets", "1", "--engine", "reference"],
        ["verify", str(path), str(path), "--sets", "1", "--time-limit", "5", "--prove"],
    ]


def faults(source: Path, change: Change, seed: int, folder: Path, *, verify: bool = True) -> Iterator[str]:
    """Return the faults of the commands on a mutant of the model."""
    draw = random.Random(seed)
    path = folder / ("m.onnxtxt" if change is as_text else "m.onnx")
    output = folder / "out.onnx"
    path.write_bytes(change(source.read_bytes(), draw))
    for words in commands(path, source, output, draw):
        if words[0] == "verify" and not verify:
            continue
        said, started = io.StringIO(), time.process_time()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                code = main(words)
        except BaseException:
            yield f"{words[0]}: {traceback.format_exc().splitlines()[-1]}"
            continue
        text = said.getvalue()
        if "internal error" in text or "Traceback" in text:
            yield f"{' '.join(words[:1] + words[3:])}: {text.strip()[-300:]}"
        if code not in (0, 1, 2, 3):
            yield f"{words[0]}: exit code {code}"
        if time.process_time() - started > SLOW:
            yield f"{words[0]}: took {time.process_time() - started:.0f} s of the processor"
        left = {file.name for file in folder.iterdir()} - {path.name, "w.bin", "loop.bin"}
        if words[0] in ("optimize", "convert") and code and left:
            yield f"{words[0]}: left {sorted(left)} with exit code {code}"
        if output.name in left and "--external-data" not in words and is_valid(path) and not is_valid(output):
            yield f"{' '.join(words[:1] + words[3:])}: made an invalid model of a valid one"
        for name in left:
            (folder / name).unlink()


def is_valid(path: Path) -> bool:
    """True if onnx accepts the model, as far as its data is in it.

    It infers no shapes: whether it sees that those of a mutant do not fit depends on what is folded.
    """
    try:
        model = onnx.load_model(path, load_external_data=False)
        onnx.checker.check_model(model)
    except Exception:  # of onnx, which raises anything
        return False
    return True


def prepared(folder: Path) -> Path:
    """The folder with the data files that mutants name."""
    (folder / "w.bin").write_bytes(bytes(4096))
    (folder / "loop.bin").symlink_to("loop.bin")
    return folder
