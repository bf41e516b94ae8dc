"""Native code of onnx, asked in a child process: there are models at which it ends the process, or takes all memory."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

import onnx.checker
import onnx.shape_inference
from google.protobuf.message import EncodeError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_REFUSALS = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError, EncodeError)
_SECONDS, _BYTES = 60, 4 << 30
"""Seconds of the processor and bytes after which onnx is taken to loop, or to allocate, without an end."""


def asked_apart(question: Callable[[], object]) -> str:
    """Return the error that the call raises, in one line; empty if it raises none, or ends its process.

    Where processes cannot be forked, as on Windows, it is called in this one.
    """
    if sys.platform == "win32":
        return error_of(question)
    import multiprocessing  # which most commands do not need

    forked = multiprocessing.get_context("fork")
    receiver, sender = forked.Pipe(duplex=False)
    process = forked.Process(target=_answer, args=(question, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return ""
    finally:
        process.join()


def _answer(question: Callable[[], object], sender: Connection) -> None:
    _limit()
    sender.send(error_of(question).encode(errors="replace").decode())


def error_of(question: Callable[[], object]) -> str:
    """Return the error that the call raises in this process, in one line; empty if it raises none."""
    try:
        question()
    except _REFUSALS as error:
        return " ".join(str(error).split())
    return ""


def _limit() -> None:
    """Limit the time and the memory of this process, and let it end without a report."""
    faulthandler.disable()
    resource = import_module("resource")
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_BYTES if hard < 0 else min(_BYTES, hard), hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
