"""What went wrong, as data: a code, one plain sentence, the file, and the exit code."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DONE, REFUSED, TROUBLE, INCONCLUSIVE, INTERRUPTED = 0, 1, 2, 3, 130

USAGE = "usage"

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
"""The code of each error that is raised on purpose."""

_PATHS = ("input", "a", "b", "output", "inputs", "report")
"""The arguments that name files, in the order in which a sentence is searched for them."""


@dataclass(frozen=True)
class Failure:
    """Why a command failed. code: stable, one of those in docs/schema/error-1.json. file: empty where none is named."""

    code: str
    message: str
    file: str
    exit_code: int

    def data(self) -> dict[str, Any]:
        """The layout of docs/schema/error-1.json, without its version."""
        error = {"code": self.code, "message": self.message, "file": self.file or None, "exit_code": self.exit_code}
        return {"error": error}


def failure_of(error: Exception, arguments: Mapping[str, Any]) -> Failure:
    """What the exception means to whoever ran the command with the arguments."""
    from castsmith.ir.errors import OpsetError, VerificationError
    from castsmith.numerics.errors import CastsmithError, PromotionError

    if isinstance(error, CastsmithError):
        message = with_command_options(str(error))
        refused = isinstance(error, PromotionError | VerificationError)
        # diff and verify keep 1 for models that differ.
        ended = REFUSED if refused and arguments.get("command") not in ("diff", "verify") else TROUBLE
        file = _file(message, arguments)
        if isinstance(error, OpsetError) and file:
            message = f"{file}: {message}"
        return Failure(_code(type(error)), message, file, ended)
    if isinstance(error, OSError) and error.strerror:
        file = "" if error.filename is None else os.fsdecode(error.filename)
        return Failure("file", f"{file}{': ' if file else ''}{error.strerror}.", file, TROUBLE)
    if isinstance(error, MemoryError):
        return Failure("memory", "there is not enough memory for this.", "", TROUBLE)
    if type(error).__name__ == "SerdeError":  # of onnx_ir, which is not imported for its name
        from castsmith.ir.protos import root_cause

        message = f"text in the model is not UTF-8, or something else in it cannot be written ({root_cause(error)})."
        return Failure("model", message, _file("", arguments), TROUBLE)
    return Failure("internal", f"internal error ({_cause(error)}): please report this.", "", TROUBLE)


def with_command_options(sentence: str) -> str:
    """The sentence with options named as the command line has them: `promote_unsafe` as --promote-unsafe."""
    return re.sub(r"`([a-z0-9]+(_[a-z0-9]+)+)`", lambda found: f"--{found[1].replace('_', '-')}", sentence)


def _code(kind: type[Exception]) -> str:
    """The code of the error, or of the kind of error that it is."""
    return next(_CODES[base.__name__] for base in kind.__mro__ if base.__name__ in _CODES)


def _file(message: str, arguments: Mapping[str, Any]) -> str:
    """The file that the sentence begins with; else the only one that there is to read."""
    given = [path for name in _PATHS for path in _listed(arguments.get(name))]
    named = next((path for path in given if message.startswith(f"{path}:")), "")
    sources = _listed(arguments.get("input"))
    return named or (sources[0] if len(sources) == 1 else "")


def _listed(value: str | list[str] | None) -> list[str]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _cause(error: Exception) -> str:
    """The kind of error, its text, and the line of code that raised it."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}{': ' if text else ''}{text} at {os.path.basename(where.filename)}:{where.lineno}"
