"""The other end of `Process`: a script that imports nothing of Castsmith, so that it runs in any environment.

    python channel.py SCRIPT

It reads requests from its input and writes the answers to its output, each a pickle preceded by its length. SCRIPT is
loaded with the first request: its `answerer()` gives the function that answers. Before each request stand the seconds
of the processor that it may take; the operating system ends the process after those. Every Python error is an answer.
Each answer holds the seconds of the processor since the one before. When its input ends, the process does too, in the
middle of a request as well, so that it never outlives the process that started it.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from queue import SimpleQueue
from typing import IO, Any

_LENGTH = struct.Struct("<Q")
_MOST_TEXT = 400
"""Characters of an error."""

TIMED = hasattr(signal, "setitimer")
"""True if the operating system counts processor time for the process, and can end it for that (not on Windows)."""


def send(stream: IO[bytes], message: object) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=5)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Return the next message. Raises EOFError if the other end is closed."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def serve(requests: Iterable[Any], answers: IO[bytes], load: Callable[[], Callable[..., object]]) -> None:
    """Answer each request with the function that `load` gives."""
    answer: Callable[..., object] | None = None
    counted = time.process_time()
    for seconds, *words in requests:
        limit_seconds(seconds)
        try:
            answer = answer or load()
            reply: tuple[bool, object] = (True, answer(*words))
        except Exception as error:  # each engine raises classes of its own, ONNX Runtime one for each status code
            reply = (False, " ".join((str(error) or type(error).__name__).split())[:_MOST_TEXT])
        words.clear()
        counted, used = time.process_time(), time.process_time() - counted
        send(answers, (*reply, used))
        limit_seconds(0.0)


def limit_seconds(seconds: float) -> None:
    """End this process by SIGPROF after so many more seconds of the processor; 0 removes the limit."""
    if TIMED:
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _arriving(stream: IO[bytes]) -> Iterator[Any]:
    """Yield each message as it arrives. If the stream ends while one is being answered, end this process."""
    waiting, busy = SimpleQueue[Any](), threading.Event()

    def read() -> None:
        try:
            while True:
                waiting.put(receive(stream))
        except EOFError:
            return
        finally:
            waiting.put(None)
            if busy.is_set():
                os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=read, daemon=True).start()
    while (message := waiting.get()) is not None:
        busy.set()
        yield message
        busy.clear()


def _answerer(script: str) -> Callable[..., object]:
    spec = spec_from_file_location("answering", script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script} is no Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.answerer()


if __name__ == "__main__":
    _requests, _answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output of engines is not an answer
    serve(_arriving(_requests), _answers, lambda: _answerer(sys.argv[1]))
