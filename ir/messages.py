"""Finding messages of one kind in a protobuf message, at any depth, without visiting what cannot hold any."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

Kind = TypeVar("Kind", bound=Message)

_NONE: frozenset[str] = frozenset()


def messages_of(message: Message, kind: type[Kind]) -> Iterator[Kind]:
    """Every message of the kind in `message`, itself included, but none that is within another of the kind."""
    pending = [message]
    while pending:
        current = pending.pop()
        if isinstance(current, kind):
            yield current
            continue
        for field in _towards(current.DESCRIPTOR, kind.DESCRIPTOR, _NONE):
            value = getattr(current, field.name)
            if not isinstance(value, Message):
                pending.extend(value)
            elif current.HasField(field.name):
                pending.append(value)


@cache
def _towards(within: Descriptor, kind: Descriptor, above: frozenset[str]) -> tuple[FieldDescriptor, ...]:
    """The fields of a message in which there may be one of the kind."""
    above |= {within.full_name}
    return tuple(field for field in within.fields if _may_hold(field.message_type, kind, above))


def _may_hold(found: Descriptor | None, kind: Descriptor, above: frozenset[str]) -> bool:
    if found is None or found is kind:
        return found is kind
    return found.full_name not in above and bool(_towards(found, kind, above))
