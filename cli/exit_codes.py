"""The exit codes of commands, and their meanings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

DONE, REFUSED, UNUSABLE, INCONCLUSIVE, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143

EXIT_CODES: Mapping[str, Mapping[int, str]] = {
    "optimize": {
        DONE: "the model is written",
        REFUSED: "a needed change is not possible, or --verify found a difference; nothing is written",
        INCONCLUSIVE: "the model is written, but --verify could not compare all of it",
    },
    "fit": {
        DONE: "the model is written; with --plan: there is a way",
        REFUSED: "no way was found to make the model run on the target; nothing is written",
    },
    "convert": {
        DONE: "the model is written",
        REFUSED: "the result would be invalid; nothing is written",
    },
    "check": {
        DONE: "no findings at or above --fail-on",
        REFUSED: "findings at or above --fail-on",
    },
    "diff": {DONE: "the same", REFUSED: "different", INCONCLUSIVE: "the same text, but data was not compared"},
    "certificate": {
        DONE: "certified for all inputs",
        REFUSED: "the certificate is not of these models, or was changed",
        INCONCLUSIVE: "a rewrite is not certified",
    },
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
    UNUSABLE: "bad usage, or a file that cannot be read or written",
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


BROKEN_PIPE = 141
"""128 + SIGPIPE, as for a program that the signal ends."""
