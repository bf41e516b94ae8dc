"""Engines in the process of the tests, for models that end none: to ask another process takes half of a small run."""

from __future__ import annotations

import pickle
import time
from functools import cache
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
