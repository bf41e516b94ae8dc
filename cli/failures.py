"""Every error that a command raises as a failure: its code, one plain sentence, the file, and the exit code."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from typing import Any

from castsmith.cli.exit_codes import REFUSED, UNUSABLE
from castsmith.cli.outcome import Failure
from castsmith.cli.streams import shown
from castsmith.cli.wording import with_command_options
from castsmith.ir.errors import ModelError, VerificationError
from castsmith.ir.io.protos import root_cause
from castsmith.numerics.errors import CastsmithError, PromotionError
from castsmith.verification.evaluate.engines import EngineError

_CODES = {
    "ModelError": "model",
    "EngineError": "engine",
    "VerificationError": "verification",
    "PromotionError": "promotion",
    "ElementTypeError": "element-type",
    "CastError": "cast",
    "QuantizeError": "quantize",
    "TruncError": "trunc",
    "TargetError": "target",
    "OptionError": "option",
    "CastsmithError": "internal",
}
"""The code of each error that is raised deliberately."""

_PATHS = ("input", "model", "a", "b", "output", "inputs", "report", "baseline")
"""The arguments that name files, in the order in which a sentence is searched for them."""


def failure_of(error: Exception, arguments: Mapping[str, Any]) -> Failure:
    """Return the failure that the exception means for a command with the arguments."""
    if isinstance(error, CastsmithError):
        message = with_command_options(str(error))
        refused = isinstance(error, PromotionError | VerificationError)
        # diff and verify keep 1 for models that differ.
        ended = REFUSED if refused and arguments.get("command") not in ("diff", "verify") else UNUSABLE
        file = _file(message, arguments)
        of_model = isinstance(error, ModelError | PromotionError) and not isinstance(error, EngineError)
        if of_model and file and not message.startswith(f"{shown(file)}:"):
            message = f"{shown(file)}: {message}"
        return Failure(_code(type(error)), message, file, ended)
    if isinstance(error, OSError) and error.strerror:
        file = "" if error.filename is None else os.fsdecode(error.filename)
        return Failure("file", f"{file}{': ' if file else ''}{error.strerror}.", file, UNUSABLE)
    if isinstance(error, MemoryError):
        return Failure("memory", "not enough memory.", "", UNUSABLE)
    if type(error).__name__ == "SerdeError":  # of onnx_ir, which is not imported for its name
        message = f"text in the model is not UTF-8, or something else in it cannot be written ({root_cause(error)})."
        return Failure("model", message, _file("", arguments), UNUSABLE)
    return Failure("internal", f"internal error ({_cause(error)}): please report this.", "", UNUSABLE)


def _code(kind: type[Exception]) -> str:
    """Return the code of the error, or of its base class."""
    return next(_CODES[base.__name__] for base in kind.__mro__ if base.__name__ in _CODES)


def _file(message: str, arguments: Mapping[str, Any]) -> str:
    """Return the file that the sentence begins with, or the only file to read."""
    paths = [path for name in _PATHS for path in _listed(arguments.get(name))]
    leading = next((path for path in paths if message.startswith(f"{shown(path)}:")), "")
    sources = _listed(arguments.get("input"))
    return leading or (sources[0] if len(sources) == 1 else "")


def _listed(value: str | list[str] | None) -> list[str]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _cause(error: Exception) -> str:
    """Return the kind of error, its text, and the line of code that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}{': ' if text else ''}{text} at {os.path.basename(frame.filename)}:{frame.lineno}"
