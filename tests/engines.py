"""Engines in the process of the tests, for models that end none: to ask another process takes half of a small run."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from castsmith.verification.evaluate import worker
from castsmith.verification.evaluate.process import EngineError, Process


class Here(Process):
    """Answers as the other process does, without limits of time and memory."""

    def __init__(self) -> None:
        super().__init__(Path(worker.__file__))
        self.turn = -1  # of no start: a model that another process has prepared is prepared again
        self._answer = cache(worker.answerer)

    @property
    def is_alive(self) -> bool:
        return True

    def _ask(self, request: tuple[object, ...], seconds: float) -> Any:
        del seconds
        began = time.process_time()
        try:
            return pickle.loads(pickle.dumps(self._answer()(*request), 5))
        except Exception as error:  # each engine raises classes of its own, as in `channel`
            raise EngineError(str(error) or type(error).__name__) from None
        finally:
            self.used += time.process_time() - began


_onnxruntime = worker._onnxruntime  # pyright: ignore[reportPrivateUsage]
_RANDOM = (b"Random", b"Bernoulli", b"Multinomial", b"Dropout")
"""In the names of operators whose session continues a sequence of random numbers."""

_MOST_SESSIONS = 1000
"""It bounds their memory: a file of tests that makes 3,500 took 11 megabytes more."""


@lru_cache(_MOST_SESSIONS)
def _session(model: bytes) -> worker.Run:
    return _onnxruntime(model, {})


def session_made_once(model: bytes, fixed: Mapping[str, Any]) -> worker.Run:
    """Return a session of ONNX Runtime: tests ask the same operator of many models, and each of one several times."""
    if len(model) > 1 << 14 or any(word in model for word in _RANDOM):
        return _onnxruntime(model, fixed)
    run = _session(model)
    return lambda feeds: run({**fixed, **feeds})
