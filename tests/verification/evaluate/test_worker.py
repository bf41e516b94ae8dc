"""The process in which engines run, here in the process of the tests: its messages, limits and engines."""

from __future__ import annotations

import io
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from castsmith.verification.evaluate import channel, worker

_MODEL = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x, float[2] w) => (float[2] y, float[2] z) { y = Sub (x, w) z = Neg (x) }"""


def model() -> bytes:
    return onnx.parser.parse_model(_MODEL).SerializeToString()


def array(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


def recorder(calls: list[tuple[Any, ...]], *first: Any) -> Callable[..., None]:
    def record(*given: Any) -> None:
        calls.append((*first, *given))

    return record


@pytest.fixture(autouse=True)
def no_limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record the limits in place of setting them for this process."""
    limits: list[tuple[Any, ...]] = []
    monkeypatch.setattr(channel, "limit_seconds", recorder(limits, "seconds"))
    monkeypatch.setattr(worker, "_limit_memory", recorder(limits, "memory"))
    return limits


def served(*requests: tuple[Any, ...]) -> list[Any]:
    answers = io.BytesIO()
    channel.serve(requests, answers, worker.answerer)
    answers.seek(0)
    found = list[Any]()
    while answers.tell() < len(answers.getvalue()):
        found.append(channel.receive(answers))
    return found


def test_a_message_is_a_pickle_after_its_length() -> None:
    stream = io.BytesIO()
    channel.send(stream, {"a": [1, 2]})
    data = stream.getvalue()
    assert int.from_bytes(data[:8], "little") == len(data) - 8
    assert pickle.loads(data[8:]) == {"a": [1, 2]}
    assert channel.receive(io.BytesIO(data)) == {"a": [1, 2]}


@pytest.mark.parametrize("kept", [0, 7, 8, -1])
def test_a_message_that_ends_early(kept: int) -> None:
    stream = io.BytesIO()
    channel.send(stream, "text")
    with pytest.raises(EOFError):
        channel.receive(io.BytesIO(stream.getvalue()[:kept]))


def test_each_request_has_an_answer_in_order() -> None:
    answers = served(
        (5.0, "prepare", 7, "reference", model(), {"w": array(1, 2)}),
        (5.0, "run", 7, {"x": array(5, 5)}),
        (5.0, "run", 7, {"x": array(1, 1), "w": array(3, 3)}),
        (5.0, "run", 8, {"x": array(5, 5)}),
        (5.0, "prepare", 9, "none", model(), {}),
        (5.0, "forget", [7, 8]),
        (5.0, "run", 7, {"x": array(5, 5)}),
    )
    assert [good for good, _, _ in answers] == [True, True, True, False, False, True, False]
    assert [answers[at][1] for at in (0, 5)] == [None, None]
    assert [each.tolist() for each in answers[1][1]] == [[4, 3], [-5, -5]]
    assert [each.tolist() for each in answers[2][1]] == [[-2, -2], [-1, -1]]
    assert [answers[at][1] for at in (3, 4, 6)] == ["8", "'none'", "7"]
    assert all(0 <= seconds < 60 for _, _, seconds in answers)


def test_an_error_is_one_short_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(text: str) -> Any:
        def prepare(*given: Any) -> Any:
            assert len(given) == 2
            raise ValueError(text)

        return prepare

    for text, expected in (("two\n  lines", "two lines"), ("", "ValueError"), ("x" * 500, "x" * 400)):
        monkeypatch.setitem(worker._KINDS, "failing", failing(text))  # pyright: ignore[reportPrivateUsage]
        assert served((1.0, "prepare", 1, "failing", b"", {}))[0][:2] == (False, expected)


def test_limits_count_the_models_that_are_held(no_limits: list[tuple[Any, ...]]) -> None:
    x, data = array(1, 2), model()
    weights = {"w": array(1, 2), "v": array(1)}
    served(
        (3.0, "prepare", 1, "reference", data, {}),
        (4.0, "run", 1, {"x": x, "w": x}),
        (5.0, "prepare", 2, "reference", data + b"", weights),
        (6.0, "forget", [1]),
        (7.0, "run", 2, {"x": x}),
    )
    size, each = len(data), 2 << 20
    sizes = [
        8 * (size + size) + each,
        8 * (size + 16) + each,
        8 * (2 * size + 12 + size + 12) + 2 * each,
        8 * (size + 12) + each,
        8 * (size + 12 + 8) + each,
    ]
    assert [limit for what, limit in no_limits if what == "memory"] == sizes
    assert [limit for what, limit in no_limits if what == "seconds"] == [3, 0, 4, 0, 5, 0, 6, 0, 7, 0]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
def test_seconds_are_those_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert channel.TIMED
    try:
        channel.limit_seconds(1000.0)
        assert 990 < signal.getitimer(signal.ITIMER_PROF)[0] <= 1000.1
    finally:
        channel.limit_seconds(0.0)
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is that of Linux")
@pytest.mark.parametrize(("hard", "most"), [(-1, (4 << 30) + 10), (1 << 40, (4 << 30) + 10), (1 << 20, 1 << 20)])
def test_the_memory_limit_is_at_most_that_of_the_process(hard: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.undo()
    limits: list[tuple[Any, ...]] = []
    with monkeypatch.context() as patch:
        patch.setattr(resource, "getrlimit", {resource.RLIMIT_DATA: (5, hard)}.get)
        patch.setattr(resource, "setrlimit", recorder(limits))
        worker._limit_memory(10)  # pyright: ignore[reportPrivateUsage]
    assert limits == [(resource.RLIMIT_DATA, (most, hard))]


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
@pytest.mark.parametrize("shift", [1, 63])
def test_arrays_are_aligned(dtype: Any, shift: int) -> None:
    buffer = np.zeros(12 * np.dtype(dtype).itemsize + shift, np.uint8)
    given = buffer[shift:].view(dtype).reshape(3, 4)
    given[...] = np.arange(12).reshape(3, 4).astype(dtype)
    made = worker._aligned(given)  # pyright: ignore[reportPrivateUsage]
    assert made.__array_interface__["data"][0] % 64 == 0
    assert (made.dtype, made.tolist()) == (given.dtype, given.tolist())


@pytest.mark.parametrize("given", ["text", 3, np.array(["a"], object), np.zeros((0, 3))])
def test_what_has_no_address_stays(given: Any) -> None:
    assert worker._aligned(given) is given  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("kind", ["onnxruntime", "onnxruntime optimized", "openvino", "openvino whole", "reference"])
def test_every_engine_runs_a_model(kind: str) -> None:
    pytest.importorskip(kind.split()[0].replace("reference", "onnx"))
    answers = served(
        (60.0, "prepare", 1, kind, model(), {"w": array(1, 2)}),
        (60.0, "run", 1, {"x": array(5, 5), "other": array(0)}),
        (60.0, "run", 1, {"x": array(1, 1)}),
    )
    assert [answer[0] for answer in answers] == [True] * 3, answers
    assert [[each.tolist() for each in answer[1]] for answer in answers[1:]] == [
        [[4, 3], [-5, -5]],
        [[0, -1], [-1, -1]],
    ]


def test_openvino_refuses_results_that_it_narrows() -> None:
    pytest.importorskip("openvino")
    for dtype, kept in (("double", False), ("int64", False), ("int32", True)):
        data = onnx.parser.parse_model(_MODEL.replace("float", dtype)).SerializeToString()
        weights = {"w": np.zeros(2, {"double": np.float64}.get(dtype, dtype))}
        found = served((60.0, "prepare", 1, "openvino", data, weights))[0]
        assert found[:2] == ((True, None) if kept else (False, "a result would be computed in a narrower type."))
        assert served((60.0, "prepare", 1, "openvino whole", data, weights))[0][0]


def test_qonnx_runs_its_operators() -> None:
    pytest.importorskip("qonnx")
    text = """<ir_version: 10, opset_import: ["" : 21, "qonnx.custom_op.general" : 1]>
        g (float[2] x, float s) => (float[2] y) { y = qonnx.custom_op.general.BipolarQuant (x, s) }"""
    data = onnx.parser.parse_model(text).SerializeToString()
    answers = served((60.0, "prepare", 1, "qonnx", data, {"s": array(2).reshape(())}),
                     (60.0, "run", 1, {"x": array(-3, 0)}))  # fmt: skip
    assert answers[1][1][0].tolist() == [-2, 2]
