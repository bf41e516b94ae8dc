"""Exit codes and errors of commands: every error becomes one plain sentence on stderr and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import logging
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

# An error as data: a code, one plain sentence, the file, and the exit code.

DONE, REFUSED, UNUSABLE, INCONCLUSIVE, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143

EXIT_CODES: Mapping[str, Mapping[int, str]] = {
    "optimize": {
        DONE: "the model is written",
        REFUSED: "a rewrite was refused, or --verify found a difference; nothing is written",
        INCONCLUSIVE: "the model is written, but --verify could not compare all of it",
    },
    "convert": {
        DONE: "the model is written",
        REFUSED: "the result would be invalid; nothing is written",
    },
    "check": {
        DONE: "no findings of the severity --fail-on or higher",
        REFUSED: "findings of the severity --fail-on or higher",
    },
    "diff": {DONE: "the same", REFUSED: "different"},
    "verify": {DONE: "equal", REFUSED: "different", INCONCLUSIVE: "something was not compared"},
    "bounds": {
        DONE: "the bounds are printed; with --to, no value exceeds the type",
        REFUSED: "with --to: values that overflow, vanish, are unknown, or were NaN or infinite",
    },
    "conformance": {DONE: "the suite is written, or nothing is wrong", REFUSED: "run: wrong results, or crashes"},
    "promote": {DONE: "a common type", REFUSED: "no common type that these options allow"},
}
"""The meaning of a command's exit codes that differ from `ANY_COMMAND`."""

ANY_COMMAND: Mapping[int, str] = {
    DONE: "done",
    UNUSABLE: "bad usage, unreadable input, or output that cannot be written; the error says what was written",
}
"""The meaning of the exit codes of all commands. Also, as in a shell: 130 interrupt, 141 closed pipe, 143 SIGTERM."""

WORST = (DONE, INCONCLUSIVE, REFUSED, UNUSABLE)
"""The exit codes of many models from best to worst; the worst is that of all."""


def meanings(command: str) -> dict[int, str]:
    """Return the meaning of the exit codes of the command, by number."""
    return dict(sorted({**ANY_COMMAND, **EXIT_CODES.get(command, {})}.items()))


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of a run over many models."""
    return max(codes, key=lambda code: WORST.index(code) if code in WORST else len(WORST), default=DONE)


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
"""The code of each error that is raised deliberately."""

_PATHS = ("input", "model", "a", "b", "output", "inputs", "report", "baseline", "html")
"""The arguments that name files, in the order in which a sentence is searched for them."""


@dataclass(frozen=True)
class Failure:
    """The reason why a command failed. `code` is one of those in docs/schema/error-1.json; `file` may be empty."""

    code: str
    message: str
    file: str
    exit_code: int

    def data(self) -> dict[str, Any]:
        """Return the layout of docs/schema/error-1.json, without its version."""
        error = {"code": self.code, "message": self.message, "file": self.file or None, "exit_code": self.exit_code}
        return {"error": error}


def failure_of(error: Exception, arguments: Mapping[str, Any]) -> Failure:
    """Return the failure that the exception means for a command with the arguments."""
    from castsmith.ir.errors import ModelError, VerificationError
    from castsmith.numerics.errors import CastsmithError, PromotionError

    if isinstance(error, CastsmithError):
        from castsmith.cli.models import shown
        from castsmith.ir.evaluate.engines import EngineError

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
        from castsmith.ir.io.protos import root_cause

        message = f"text in the model is not UTF-8, or something else in it cannot be written ({root_cause(error)})."
        return Failure("model", message, _file("", arguments), UNUSABLE)
    return Failure("internal", f"internal error ({_cause(error)}): please report this.", "", UNUSABLE)


def with_command_options(sentence: str) -> str:
    """Return the sentence with Python options and calls in the syntax of the command line.

    `promote_unsafe` becomes --promote-unsafe, `seconds=` --time, and `optimize(target='qonnx')` becomes
    optimize --target qonnx.
    """
    return _PYTHON.sub(lambda found: _as_command(found[1]), sentence)


_PYTHON = re.compile(r"`([a-z]+=|[a-z0-9]+(?:_[a-z0-9]+)+|optimize\([^`]*\))`")
_PARAMETERS = {"seconds=": "--time", "dims=": "--dim NAME=SIZE", "inputs=": "--inputs FILE.npz"}
"""Parameters of library functions whose options have another form on the command line, as messages name them."""


def _as_command(code: str) -> str:
    import ast

    if code.endswith("="):
        return _PARAMETERS.get(code) or _option(code.removesuffix("="))
    tree = ast.parse(code, mode="eval").body
    if not isinstance(tree, ast.Call):
        return _option(code)
    words = [ast.unparse(tree.func)]
    for keyword in tree.keywords:
        given = keyword.value.keywords if isinstance(keyword.value, ast.Call) else [keyword]  # of PromotionRules
        for each in given:
            value = ast.literal_eval(each.value)
            words += [_option(each.arg or "")] if value is True else [_option(each.arg or ""), shlex.quote(str(value))]
    return " ".join(words)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _code(kind: type[Exception]) -> str:
    """Return the code of the error, or of its base class."""
    return next(_CODES[base.__name__] for base in kind.__mro__ if base.__name__ in _CODES)


def _file(message: str, arguments: Mapping[str, Any]) -> str:
    """Return the file that the sentence begins with, or the only file to read."""
    from castsmith.cli.models import shown

    given = [path for name in _PATHS for path in _listed(arguments.get(name))]
    named = next((path for path in given if message.startswith(f"{shown(path)}:")), "")
    sources = _listed(arguments.get("input"))
    return named or (sources[0] if len(sources) == 1 else "")


def _listed(value: str | list[str] | None) -> list[str]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _cause(error: Exception) -> str:
    """Return the kind of error, its text, and the line of code that raised it."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}{': ' if text else ''}{text} at {os.path.basename(where.filename)}:{where.lineno}"


BROKEN_PIPE = 141
"""128 + SIGPIPE, as for a program that the signal ends."""


_OF_A_STREAM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Errors of writing to a stream without a file name."""


def run_command(arguments: argparse.Namespace) -> int:
    """Call `arguments.run` and turn every exception into a sentence and an exit code."""
    _print_any_character()
    _print_only_our_own()
    from castsmith.cli.consistency import require_consistent, require_needed

    command: Callable[[argparse.Namespace], int] = arguments.run
    try:
        require_consistent(arguments)
        if hasattr(arguments, "config"):
            from castsmith.cli.gate.settings import apply_settings

            arguments.settings = apply_settings(arguments)
        require_needed(arguments)
        if getattr(arguments, "target", None) is not None:
            arguments.target = name_of_target(arguments.target)
        code = command(arguments)
        sys.stdout.flush()
        return code
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop(sys.stdout)
        return BROKEN_PIPE
    except Exception as error:  # the last resort: users must see a sentence
        if isinstance(error, OSError) and error.filename is None and error.errno in _OF_A_STREAM:
            _drop(sys.stdout)
            return _tell_unprinted(arguments, str(error.strerror))
        failure = failure_of(error, vars(arguments))
        if arguments.outcome is not None:
            arguments.outcome.error = failure.data()["error"]
        return tell_failure(failure, as_json=wants_json(arguments))


def name_of_target(name: str) -> str:
    """Return the target that an alias leads to, and say so; other names as they are."""
    from castsmith.ir.targets.target import ALIASES

    if name in ALIASES:
        complain(f"{name} is {ALIASES[name]}.")
    return ALIASES.get(name, name)


def end_of_help(code: int, error: OSError | None = None) -> int:
    """Return the exit code after argparse has printed the help or the version, or failed to."""
    reason = _print_failure()
    if error is not None and not isinstance(error, BrokenPipeError):
        _drop(sys.stdout)
        reason = error.strerror or "unknown error"
    return code if not reason else tell_failure(_unprinted(reason), as_json=False)


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where it arrived."""


@contextmanager
def cleaned_up_if_interrupted() -> Generator[None]:
    """Within the block, raise exceptions for an interrupt and SIGTERM, so that unfinished files are removed.

    Outside the block both end the process immediately.
    """
    import signal
    import threading

    from castsmith.cli.entry import end_at_once

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if before[signal.SIGTERM] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, frame: object) -> None:
    """Raise Terminated, once: another signal must not interrupt the removal of unfinished files."""
    import signal

    del frame
    signal.signal(number, signal.SIG_IGN)
    raise Terminated


def complain(sentence: str) -> None:
    """Print one line on stderr; if that fails, only the exit code remains."""
    from castsmith.cli.text.terminal import one_line, print_line, print_text

    text = f"castsmith: {sentence}"
    try:
        print_text(_wrapped(one_line(text)), sys.stderr) if sys.stderr.isatty() else print_line(text, sys.stderr)
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)


def _wrapped(text: str) -> str:
    """Return the text in lines of the width of the terminal, without breaking a word."""
    import shutil
    import textwrap

    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def usable(names: Iterable[str], load: Callable[[str], object]) -> tuple[list[str], bool]:
    """Return the names that `load` accepts, and True if all are accepted.

    An unusable extension is reported, and does not hide the others.
    """
    from castsmith.numerics.extensions import ExtensionError

    given, good = list(dict.fromkeys(names)), list[str]()
    for name in given:
        try:
            load(name)
            good.append(name)
        except ExtensionError as error:
            complain(str(error))
    return good, len(good) == len(given)


def _print_failure() -> str:
    """Return the reason why the output cannot be written to stdout, which is then dropped; empty if it can."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)
    except OSError as error:
        _drop(sys.stdout)
        return error.strerror or "unknown error"
    return ""


def _tell_unprinted(arguments: argparse.Namespace, reason: str) -> int:
    """Report that the result could not be printed; a command that wrote a model has still succeeded."""
    written = getattr(arguments, "written", None)
    if written is None:
        return tell_failure(_unprinted(reason), as_json=False)
    complain(f"{written} is written, but standard output cannot be written ({reason}).")
    return UNUSABLE if wants_json(arguments) else DONE


def _unprinted(reason: str) -> Failure:
    return Failure("file", f"standard output cannot be written ({reason}).", "", UNUSABLE)


def tell_failure(failure: Failure, *, as_json: bool) -> int:
    """Print one line on stderr for people and, for programs, the failure on stdout; return its exit code."""
    complain(failure.message)
    if as_json:
        from castsmith.cli.arguments import print_json

        with contextlib.suppress(OSError):
            print_json(failure.data())
    _print_failure()
    return failure.exit_code


def wants_json(arguments: argparse.Namespace) -> bool:
    """True if the command is to print JSON."""
    return bool(getattr(arguments, "json", False)) or getattr(arguments, "format", None) == "json"


def _print_any_character() -> None:
    """Escape characters in names that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_only_our_own() -> None:
    """Silence the log of onnx_ir: warnings and tracebacks that are either reported in a sentence or harmless."""
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)


def _drop(stream: TextIO) -> None:
    """Discard remaining output; otherwise the interpreter would complain when it flushes at exit."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
