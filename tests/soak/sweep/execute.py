"""Run a model before and after `optimize` on generated inputs and compare the bits."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.reference
import onnxruntime
from onnx_ir import DataType

import castsmith
from castsmith.ir.ops.table import operators
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import Kind, element_type
from tests.graphs.inputs import array_of
from tests.lowering.runtime import run as run_with_values

Feeds = dict[str, Any]
Run = Callable[[Feeds], list[Any]]

_SIZES = (2, 1, 3, 4, 8, 16, 32)
"""Sizes for dimensions without one, tried in turn until the model runs."""
_RANKS = (1, 2, 4, 3, 0)
"""Ranks for inputs without one, tried in turn."""
_TEXTS = ("1", "0", "-2.5", "3e2", "text", "INF")
_ADVERSARIAL = 3
_RANGES: dict[int, tuple[float, float]] = {
    **dict.fromkeys((onnx.TensorProto.INT4, onnx.TensorProto.UINT4), (0.0, 7.0)),
    **dict.fromkeys((onnx.TensorProto.INT2, onnx.TensorProto.UINT2), (0.0, 1.0)),
    onnx.TensorProto.FLOAT8E8M0: (2.0**-14, 2.0**15),
}
"""Return feeds of outputs of these types, chosen so that the standard fixes the results.

They may be codes in the result, for which `verify` does not know the undefined elements.
"""
_PACKED = re.compile(r"u?int[24]\b|float[46]e")
_RANDOM = operators(lambda row: row.random)
_SECONDS = 60
"""The time for comparing one pair of models: loops of many turns take hours in the reference evaluator."""
_REFERENCE_NODES = 400
"""The reference evaluator is asked up to this many nodes: it is slow."""


@dataclass(frozen=True)
class Outcome:
    """The result of running both models. how: `same`, `explained`, `declared`, `different` or `not run`."""

    how: str
    text: str = ""


def ort_session(model: bytes | str, *, optimized: bool) -> onnxruntime.InferenceSession:
    """A session of one thread, without optimization or with all of it."""
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # do not round inputs to int8
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])


def checker_refusal(model: onnx.ModelProto | str) -> str | None:
    """Return the error of `onnx.checker` (full check) for a model or a file; None if it is accepted.

    It is asked in a process of its own: there are valid models on which it ends in a segmentation fault.
    """
    connection, process = _checker(os.getpid())
    try:
        connection.send(model if isinstance(model, str) else model.SerializeToString())
        return connection.recv()
    except (EOFError, OSError):
        process.join()
        _checker.cache_clear()
        return f"onnx.checker ended with {process.exitcode}"


@cache
def _checker(_of: int) -> tuple[Connection, ForkProcess]:
    """A process that checks models, one for each that asks."""
    context = multiprocessing.get_context("fork")
    asking, answering = context.Pipe()
    process = context.Process(target=_check_each, args=(answering, asking), daemon=True)
    process.start()
    answering.close()
    return asking, process


def _check_each(answering: Connection, asking: Connection) -> None:
    asking.close()
    faulthandler.disable()
    while True:
        try:
            model = answering.recv()
        except EOFError:
            return
        try:
            onnx.checker.check_model(model, full_check=True)
            answering.send(None)
        except Exception as error:  # ValidationError, InferenceError, and what protobuf raises
            answering.send(short(error) or "refused")


def load_in_openvino(path: str) -> None:
    """Compile the model for the CPU. Raises what OpenVINO raises."""
    import openvino

    openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": "1"})


def same_bits(before: str, after: str, effects: Sequence[str]) -> Outcome:
    """Compare the models in the two files. effects: what the rewrites between them state, other than bit-exact.

    ONNX Runtime without optimization runs both whole. Where that differs, because it drops roundings of its own, the
    reference evaluator runs both whole, and Castsmith runs them one operator at a time; so it is where ONNX Runtime
    has no kernel. Where the reference evaluator refuses the second, it runs the first and ONNX Runtime the second.
    """
    said: list[str] = []
    try:
        with _at_most(_SECONDS):
            return _same_bits(before, after, effects, said)
    except _TooSlowError:
        said.append(f"running both takes more than {_SECONDS} s")
        return _undecided(said)


def _same_bits(before: str, after: str, effects: Sequence[str], said: list[str]) -> Outcome:
    """As `same_bits`, noting in `said` what each comparison showed."""
    model, result = onnx.load(before), onnx.load(after, load_external_data=False)
    for first, second in ((_ort_run, _ort_run), (_reference_run, _reference_run), (_reference_run, _ort_run)):
        outcome = _both(first, second, before, after, model, result)
        if outcome.how == "same":
            differed = [text for text in said if "differs" in text]
            return Outcome("explained", f"{outcome.text}; {differed[-1]}") if differed else outcome
        said.append(outcome.text)
        if outcome.how == "different" and effects:
            return Outcome("declared", f"{outcome.text}; the records say: {', '.join(effects)}")
        if outcome.how == "different":
            step = _one_by_one(before, after, model, first)
            if step.how == "same":
                return Outcome("explained", f"one operator at a time the bits are the same; whole: {outcome.text}")
            said.append(step.text)
    return _undecided(said)


def _undecided(said: Sequence[str]) -> Outcome:
    """The outcome where no comparison showed the same: different if one differs."""
    return Outcome("different" if any("differs" in text for text in said) else "not run", "; ".join(said))


class _TooSlowError(BaseException):
    """Raised in whatever runs when the time is up; no `except Exception` takes it for a refusal of the runtime."""


@contextmanager
def _at_most(seconds: float) -> Generator[None]:
    """Raise _TooSlowError in the block after that time; of a runtime's own code, when it returns."""

    def stop(*_: object) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _both(
    one: Callable[[str], Run],
    other: Callable[[str], Run],
    before: str,
    after: str,
    model: onnx.ModelProto,
    result: onnx.ModelProto,
) -> Outcome:
    who = f"{_TITLES[one]} and {_TITLES[other]}" if one is not other else _TITLES[one]
    try:
        outcome = _compared(model, one(before), other(after), result, refuses=other is _reference_run)
    except Exception as error:  # each runtime raises classes of its own
        return Outcome("not run", f"{who}: {short(error)}")
    return Outcome(outcome.how, f"{who}: {outcome.text}")


def _compared(model: onnx.ModelProto, first: Run, second: Run, after: onnx.ModelProto, *, refuses: bool) -> Outcome:
    """Both run on every set of inputs that the first runs on. refuses: the second may refuse what it should run."""
    ran, reason = 0, "no inputs could be made"
    if _draws(model):
        return Outcome("not run", "the model draws random numbers without a seed")
    for name, feeds in _sets(model, first):
        try:
            expected = first(feeds)
        except Exception as error:
            reason = short(error)
            continue
        if not _as_model_says(model, expected):
            reason = "an output has another shape than the model declares"
            continue
        try:
            again = first(feeds)
        except Exception as error:
            return Outcome("not run", short(error))
        if _difference(expected, again) is not None:
            return Outcome("not run", "the model gives other results each time")
        try:
            found = second(_as_declared(feeds, after))
        except Exception as error:
            differs = "" if refuses else "differs: "
            return Outcome("not run" if refuses else "different", f"{differs}not run on {name}: {short(error)}")
        where = _difference(expected, found)
        if where is not None:
            return Outcome("different", f"differs on {name}: {where}")
        ran += 1
    return Outcome("same", f"{ran} sets of inputs") if ran else Outcome("not run", f"does not run before: {reason}")


def _as_model_says(model: onnx.ModelProto, outputs: Sequence[Any]) -> bool:
    """True if the outputs have the shapes that the model declares.

    An output may be declared narrower than inputs of unknown rank or size allow. What the declared shapes fix is
    folded, so that inputs which contradict them show nothing.
    """
    for value, output in zip(model.graph.output, outputs, strict=True):
        if not value.type.tensor_type.HasField("shape") or not isinstance(output, np.ndarray):
            continue
        dims = value.type.tensor_type.shape.dim
        fixed = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
        if len(fixed) != output.ndim or any(a not in (None, b) for a, b in zip(fixed, output.shape, strict=True)):
            return False
    return True


def _one_by_one(before: str, after: str, model: onnx.ModelProto, engine: Callable[[str], Run]) -> Outcome:
    """Compare the two files by Castsmith itself, on the inputs that were run.

    They are the same if elements of each output were compared without a difference, even if an intermediate result
    never varied.
    """
    run = engine(before)
    sets = [(name, feeds) for name, feeds in _sets(model, run) if _as_model_says(model, run(feeds))]
    try:
        verdict = castsmith.verify(before, after, inputs=sets, accept=("all",))
    except castsmith.CastsmithError as error:
        return Outcome("not run", f"one operator at a time: {error}")
    compared = bool(verdict.outputs) and all(count.compared for count in verdict.outputs.values())
    if verdict.equal or (verdict.inconclusive and compared):
        return Outcome("same")
    what = "different" if verdict.different else "not run"
    return Outcome(what, f"one operator at a time: {verdict.summary()}")


def _draws(model: onnx.ModelProto) -> bool:
    """True if a node draws random numbers without a seed."""
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    while bodies:
        for node in bodies.pop():
            if node.op_type in _RANDOM and all(attribute.name != "seed" for attribute in node.attribute):
                return True
            bodies += [a.g.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return False


def _ort_run(path: str) -> Run:
    opened = ort_session(path, optimized=False)
    if any(_PACKED.search(value.type) for value in (*opened.get_inputs(), *opened.get_outputs())):
        raise ValueError("packed inputs or outputs, which its Python interface does not give as arrays")
    tensors = all(value.type.startswith("tensor(") for value in (*opened.get_inputs(), *opened.get_outputs()))
    texts = any("string" in value.type for value in (*opened.get_inputs(), *opened.get_outputs()))
    if tensors and not texts:
        return lambda feeds: list(run_with_values(opened, feeds))
    return lambda feeds: list(opened.run(None, feeds))


def _reference_run(path: str) -> Run:
    model = onnx.load(path)
    if len(model.graph.node) > _REFERENCE_NODES:
        raise ValueError("too large for the reference evaluator")
    evaluator = onnx.reference.ReferenceEvaluator(model)

    def run(feeds: Feeds) -> list[Any]:
        with np.errstate(all="ignore"):
            found: list[Any] = list(evaluator.run(None, feeds))  # type: ignore[arg-type]
        # Its OptionalGetElement gives a list of the element.
        tensors = [value.type.HasField("tensor_type") for value in model.graph.output]
        return [
            each[0] if isinstance(each, list) and is_tensor else each
            for each, is_tensor in zip(found, tensors, strict=True)
        ]

    return run


_TITLES: dict[Callable[[str], Run], str] = {_ort_run: "ONNX Runtime", _reference_run: "the reference evaluator"}


def _sets(model: onnx.ModelProto, run: Run) -> Iterator[tuple[str, Feeds]]:
    """Mild inputs of the first sizes on which the model runs, then adversarial ones of the same shapes."""
    for rank in _RANKS:
        for size in _SIZES:
            feeds = _feeds(model, size, rank, np.random.default_rng(size))
            try:
                run(feeds)
            except Exception:
                continue
            yield f"mild inputs of size {size}", feeds
            for index in range(_ADVERSARIAL):
                rng = np.random.default_rng((size, index))
                yield (
                    f"adversarial inputs {index}",
                    {name: _tame(model, name, _awkward(value, rng)) for name, value in feeds.items()},
                )
            return
        if all(_has_shape(value) for value in model.graph.input):
            break
    yield "mild inputs", _feeds(model, _SIZES[0], _RANKS[0], np.random.default_rng(0))


def _has_shape(value: onnx.ValueInfoProto) -> bool:
    return value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape")


def _feeds(model: onnx.ModelProto, size: int, rank: int, rng: np.random.Generator) -> Feeds:
    given = {tensor.name for tensor in (*model.graph.initializer,)}
    given |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    feeds = {v.name: _mild(v.type, size, rank, rng) for v in model.graph.input if v.name not in given}
    return {name: _tame(model, name, value) for name, value in feeds.items()}


def _tame(model: onnx.ModelProto, name: str, value: Any) -> Any:
    """A scale is one, a zero point zero, and what becomes a narrow integer or float8e8m0 in its range: the standard
    leaves open what others do."""
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") and name in node.input[1:]:
            return np.ones_like(value) if name == node.input[1] else np.zeros_like(value)
    narrow = {value.type.tensor_type.elem_type for value in model.graph.output} & _RANGES.keys()
    if narrow and value.dtype.kind in "fV" and DataType.from_numpy(value.dtype).bitwidth > 8:
        low, high = max(_RANGES[n][0] for n in narrow), min(_RANGES[n][1] for n in narrow)
        tame = np.clip(np.nan_to_num(np.abs(value.astype(np.float64))), low, high)
        return tame.astype(value.dtype)
    return value


def _mild(kind: onnx.TypeProto, size: int, rank: int, rng: np.random.Generator) -> Any:
    if kind.HasField("sequence_type"):
        return [_mild(kind.sequence_type.elem_type, size, rank, rng) for _ in range(2)]
    if kind.HasField("optional_type"):
        return _mild(kind.optional_type.elem_type, size, rank, rng)
    tensor = kind.tensor_type
    shape = [max(dim.dim_value, 0) if dim.HasField("dim_value") else size for dim in tensor.shape.dim]
    if not tensor.HasField("shape"):
        shape = [size] * rank
    dtype = DataType(tensor.elem_type)
    if dtype is DataType.STRING:
        return np.resize(np.array(_TEXTS[:2], object), shape)
    if element_type(dtype).kind is Kind.COMPLEX:
        return rng.normal(0, 1, shape).astype(dtype.numpy())
    if element_type(dtype).kind is Kind.FLOATING:
        return cast(np.abs(rng.normal(0, 1, shape)) if dtype is DataType.FLOAT8E8M0 else rng.normal(0, 1, shape), dtype)
    return cast(rng.integers(0, 2, shape), dtype)


def _awkward(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, list):
        return [_awkward(each, rng) for each in value]
    if value.dtype == object:
        return np.resize(np.array(_TEXTS, object), value.shape)
    dtype = DataType.from_numpy(value.dtype)
    if element_type(dtype).kind is Kind.COMPLEX:
        return value
    return array_of(dtype, value.shape, rng)


def _as_declared(feeds: Feeds, after: onnx.ModelProto) -> Feeds:
    """The inputs as the second model takes them: codes for a type that is kept as codes, wider numbers for others."""
    types = {value.name: value.type.tensor_type.elem_type for value in after.graph.input}
    return {name: _as_type(value, types.get(name, 0)) for name, value in feeds.items()}


def _as_type(value: Any, number: int) -> Any:
    if isinstance(value, list) or not number or value.dtype == object:
        return value
    to = DataType(number)
    own = DataType.from_numpy(value.dtype)
    if own is to:
        return value
    if to is DataType.UINT8 and own.bitwidth <= 8:
        return value.view(np.uint8) & np.uint8(2**own.bitwidth - 1)
    return cast(value, to)


def _difference(old: Sequence[Any], new: Sequence[Any]) -> str | None:
    """Return the differences of two lists of outputs; NaN of any payload are the same."""
    if len(old) != len(new):
        return f"{len(new)} outputs, was {len(old)}"
    for index, (a, b) in enumerate(zip(old, new, strict=True)):
        found = _value_difference(a, b)
        if found is not None:
            return f"output {index}: {found}"
    return None


def _value_difference(a: Any, b: Any) -> str | None:
    if a is None or b is None:
        return None if a is b else f"{b!r}, was {a!r}"
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return _difference([*a, *a.values()], [*b, *b.values()])
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return _difference(list(a), list(b))
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return f"shape {b.shape}, was {a.shape}"
    if a.dtype.kind in "OUS" or b.dtype.kind in "OUS":
        texts = [[str(e) for e in array.reshape(-1).tolist()] for array in (a, b)]
        return None if texts[0] == texts[1] else f"{texts[1][:3]}, was {texts[0][:3]}"
    if a.dtype != b.dtype:
        a = _as_type(a, int(DataType.from_numpy(b.dtype)))
    if not a.size:
        return None
    bits = [np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(a.size, -1) for x in (a, b)]
    with np.errstate(invalid="ignore"):
        differ = (bits[0] != bits[1]).any(axis=1) & ~((a != a) & (b != b)).reshape(-1)
    if not differ.any():
        return None
    at = int(differ.argmax())
    return f"{b.reshape(-1)[at]}, was {a.reshape(-1)[at]} ({int(differ.sum())} of {a.size} elements)"


def short(error: BaseException) -> str:
    """Return the text of an exception in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) < 400 else f"{text[:160]} ... {text[-240:]}"
