"""Model-local functions by their argument types: a body has one set of types for each."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir
from onnx_ir import DataType

Signature = tuple[tuple[DataType | None, int | None], ...]
"""The type of each input of a function, and its rank if the promotion rules depend on ranks."""

Context = tuple[onnx_ir.Function, Signature] | None
"""The body in which a node is, with the signature by which it is walked; None in the main graph."""


@dataclass
class Calls:
    """The functions and calls found by one walk of a model."""

    context: Context = None
    called: dict[tuple[Context, onnx_ir.Node], Context] = field(
        default_factory=dict[tuple[Context, onnx_ir.Node], Context]
    )
    """For each call, by its scope, the function with the signature of the call."""
    results: dict[Context, Sequence[DataType | None]] = field(default_factory=dict[Context, Sequence[DataType | None]])
    repaired: set[Context] = field(default_factory=set[Context])
    """The bodies in which, under that signature, a value must be converted."""
    last: dict[onnx_ir.Function, Signature] = field(default_factory=dict[onnx_ir.Function, Signature])
    """The signature by which each body was walked last, to which the types of its values belong."""

    def live(self) -> dict[onnx_ir.Function, dict[Signature, None]]:
        """Return the signatures of each function that calls from the main graph reach: a walk may also try others."""
        inside: dict[Context, list[Context]] = {}
        for (context, _), called in self.called.items():
            inside.setdefault(context, []).append(called)
        signatures: dict[onnx_ir.Function, dict[Signature, None]] = {}
        waiting: list[Context] = [None]
        while waiting:
            for called in inside.get(waiting.pop(), ()):
                if called is not None and called[1] not in signatures.setdefault(called[0], {}):
                    signatures[called[0]][called[1]] = None
                    waiting.append(called)
        return signatures

    def to_specialise(self, types: Container[DataType] = ()) -> dict[onnx_ir.Node, tuple[onnx_ir.Function, Signature]]:
        """Return the calls whose callee must be cloned, of those in scopes with one set of types.

        These are calls of functions with several signatures that contain values to convert, or calls of such functions.

        Args:
            types: The functions that are called with one of these types are cloned also if they need no conversion.
        """

        def wanted(function: onnx_ir.Function, signature: Signature) -> bool:
            return (function, signature) in self.repaired or any(
                dtype is not None and dtype in types for dtype, _ in signature
            )

        live = self.live()
        several = {
            f
            for f, signatures in live.items()
            if len(signatures) > 1 and any(wanted(f, signature) for signature in signatures)
        }
        calls = [
            (context, node, called)
            for (context, node), called in self.called.items()
            if called is not None and (context is None or context[1] in live.get(context[0], ()))
        ]
        grown = True
        while grown:
            callers = {c[0] for c, _, called in calls if c is not None and called[0] in several and len(live[c[0]]) > 1}
            grown = not callers <= several
            several |= callers
        return {
            node: called
            for context, node, called in calls
            if called[0] in several and (context is None or len(live[context[0]]) == 1)
        }


def signature_text(signature: Signature) -> str:
    """Return the types as a part of a name: `float_int64`, with the rank if it matters."""
    parts = [
        f"{dtype.name.lower() if dtype else 'any'}{'' if rank is None else f'{rank}d'}" for dtype, rank in signature
    ]
    return "_".join(parts) or "none"


def free_identifier(
    functions: Mapping[onnx_ir.OperatorIdentifier, onnx_ir.Function], base: onnx_ir.OperatorIdentifier, suffix: str
) -> onnx_ir.OperatorIdentifier:
    """Return an unused function identifier.

    It differs in name, because ONNX Runtime 1.31 loses the overload of a call inside a function.
    """
    domain, name, overload = base
    name_free, count = (domain, f"{name}_{suffix}", overload), 0
    while name_free in functions:
        count += 1
        name_free = (domain, f"{name}_{suffix}_{count}", overload)
    return name_free
