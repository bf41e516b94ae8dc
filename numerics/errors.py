"""Errors raised deliberately; every one is a CastsmithError, so that a caller can catch them all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx_ir import DataType

T = TypeVar("T")


class CastsmithError(Exception):
    """Base of every error that Castsmith raises deliberately. Its text is one plain sentence for the user.

    Errors about the value of an argument are also ValueErrors, errors about its Python type TypeErrors.
    """


class ArgumentTypeError(CastsmithError, TypeError):
    """An argument of the wrong Python type, such as an opset that is not an integer."""


class ElementTypeError(CastsmithError, ValueError):
    """An element type that is unknown, or that the operation does not support."""


class OptionError(CastsmithError, ValueError):
    """An unknown pass or option, or one that does not fit the others."""


class PromotionError(CastsmithError, ValueError):
    """Two element types have no common type under the rules in force.

    Attributes:
        lhs: The first of the two types, or None.
        rhs: The second of the two types, or None.
        rule: The short name of the rule that refused, or None.
        option: The field of PromotionRules that would allow the promotion, or None.
    """

    def __init__(
        self,
        text: str,
        *,
        lhs: DataType | None = None,
        rhs: DataType | None = None,
        rule: str | None = None,
        option: str | None = None,
    ) -> None:
        super().__init__(text)
        self.lhs = lhs
        self.rhs = rhs
        self.rule = rule
        self.option = option


class TruncError(CastsmithError, ValueError):
    """Parameters that QONNX Trunc does not accept."""


class CastError(CastsmithError, ValueError):
    """Settings, such as a rounding mode or an opset, that Cast does not support."""


class QuantizeError(CastsmithError, ValueError):
    """Shapes or attributes that QuantizeLinear or DequantizeLinear does not support."""


class InternalError(RuntimeError):
    """A defect of Castsmith: a step did not do what the next one relies on. Its text says what does not hold.

    No CastsmithError, so that no handler of expected errors takes it for one.
    """


def require(holds: bool, text: str) -> None:
    """Raise InternalError with the text unless the condition holds."""
    if not holds:
        raise InternalError(text)


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return the end of a sentence about an unknown name: the most similar known name, or `otherwise`."""
    similar = most_similar(name, names)
    return f"did you mean {similar!r}?" if similar else f"{otherwise}."


def most_similar(name: str, names: Iterable[str]) -> str:
    """Return the known name that is most similar to an unknown one, in any case; empty without one."""
    from difflib import get_close_matches

    by_folded = {choice.lower(): choice for choice in names}
    matches = get_close_matches(name.lower(), list(by_folded), 1)
    return by_folded[matches[0]] if matches else ""


def present(value: T | None, what: str) -> T:
    """Return the thing, which the steps before have made sure of. Raises InternalError if it is None."""
    if value is None:
        raise InternalError(f"{what} is missing")
    return value


def printable(text: str) -> str:
    """Return the text with control characters, including escape sequences, as Python writes them; newlines stay."""
    if text.isprintable():  # nearly always, and all that is printed comes here
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
