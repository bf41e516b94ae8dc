"""Model-local functions by the types with which they are called: a body has one set of types for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir
from onnx_ir import DataType

Signature = tuple[tuple[DataType | None, int | None], ...]
"""The type of each input of a function, and its rank where the rules of promotion look at ranks."""

Context = tuple[onnx_ir.Function, Signature] | None
"""The body in which a node stands, with the signature by which it is walked; None in the main graph."""


@dataclass
class Calls:
    """What one walk of a model sees of its functions."""

    context: Context = None
    made: dict[tuple[Context, onnx_ir.Node], Context] = field(
        default_factory=dict[tuple[Context, onnx_ir.Node], Context]
    )
    """For each call, by where it stands, the function with the signature of the call."""
    results: dict[Context, Sequence[DataType | None]] = field(default_factory=dict[Context, Sequence[DataType | None]])
    repaired: set[Context] = field(default_factory=set[Context])
    """The bodies in which, under that signature, something has to be converted."""
    last: dict[onnx_ir.Function, Signature] = field(default_factory=dict[onnx_ir.Function, Signature])
    """The signature by which each body was walked last, to which the types of its values belong."""

    def live(self) -> dict[onnx_ir.Function, dict[Signature, None]]:
        """The signatures of each function that calls from the main graph reach: a walk may try others on its way."""
        inside: dict[Context, list[Context]] = {}
        for (context, _), called in self.made.items():
            inside.setdefault(context, []).append(called)
        found: dict[onnx_ir.Function, dict[Signature, None]] = {}
        waiting: list[Context] = [None]
        while waiting:
            for called in inside.get(waiting.pop(), ()):
                if called is not None and called[1] not in found.setdefault(called[0], {}):
                    found[called[0]][called[1]] = None
                    waiting.append(called)
        return found

    def to_specialise(self) -> dict[onnx_ir.Node, tuple[onnx_ir.Function, Signature]]:
        """The calls that need a function of their own, of those that stand where there is one set of types: calls of
        functions with several signatures in which, or in what they call, something is to be converted."""
        live = self.live()
        several = {f for f, found in live.items() if len(found) > 1 and any((f, s) in self.repaired for s in found)}
        calls = [
            (context, node, called)
            for (context, node), called in self.made.items()
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
    """The types as a part of a name: `float_int64`, with the rank where it counts."""
    parts = [
        f"{dtype.name.lower() if dtype else 'any'}{'' if rank is None else f'{rank}d'}" for dtype, rank in signature
    ]
    return "_".join(parts) or "none"


def free_identifier(
    functions: Mapping[onnx_ir.OperatorIdentifier, onnx_ir.Function], base: onnx_ir.OperatorIdentifier, suffix: str
) -> onnx_ir.OperatorIdentifier:
    """An identifier that no function has. It differs in name: ONNX Runtime 1.31 loses the overload of a call that
    stands in a function."""
    domain, name, overload = base
    found, count = (domain, f"{name}_{suffix}", overload), 0
    while found in functions:
        count += 1
        found = (domain, f"{name}_{suffix}_{count}", overload)
    return found
