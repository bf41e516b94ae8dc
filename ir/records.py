"""Rewrites, refusals and diagnostics of passes: plain data for diffs, reports and checks."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir


class Effect(enum.Enum):
    """Effect of a rewrite on values."""

    BIT_EXACT = "bit-exact"
    BIT_EXACT_BUT_NAN = "bit-exact, but for the sign and payload of NaN"
    REPAIR = "the model had no meaning before; values are now as the promotion rule defines them"
    IN_WIDER_TYPE = "computed in a wider type and rounded once; the last bit differs between runtimes anyway"
    AS_DEFINED = "computed as the standard defines it; a runtime's own kernel may differ in the last bit"
    UNKNOWN = "unknown: the pass left no record, and this one is from comparing the model before and after"
    CONVERTED = "rounded to another precision, as requested"
    SCALED = "multiplied by a power of two, as requested: bit-exact in float but for overflow and subnormal numbers"
    INTERFACE = "bit-exact, but a graph input or output changed its element type"


class Severity(enum.Enum):
    """Severity of a diagnostic: an ERROR means that the emitted model is invalid for its target."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a model.

    Attributes:
        graph: The name of the graph or function.
        node: The name of the node, or empty.
        op: The operator of the node, or empty.
        output: The name of the first output of the node, or empty. It is shown for a node without a name, and places
            are equal without it.
    """

    graph: str
    node: str = ""
    op: str = ""
    output: str = field(default="", compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name of the node, or else of its first output; empty where the place is a whole graph or function."""
        return self.node or self.output

    def __str__(self) -> str:
        if not self.op:
            return self.graph
        return f"{self.graph or '(unnamed)'}: {self.name or '(unnamed)'} ({self.op})"


class FlawKind(enum.StrEnum):
    """What alone is wrong with a model or a node, where some runtimes do not mind."""

    SURPLUS = "surplus"
    """More operands or results than the operator has."""
    MORE_THAN_EVER = "operands"
    """More operands than the operator has at any opset, besides SURPLUS."""
    NUMBER = "other-kind"
    """A float where the attribute is an integer, or the other way round."""
    NEWER = "other-opset"
    """Attributes of a newer opset."""
    RESULTS = "results"
    """The number of results."""
    CYCLE = "cycle"
    """Nodes that form a cycle."""
    UNVERSIONED = "version"
    """No IR version."""
    UNIMPORTED = "imports"
    """No imports of operator sets."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with a model that is read all the same, and its place.

    Attributes:
        node: The node that does not fit its operator, if it is that.
        kinds: What kinds of flaw it is.
    """

    site: Site
    text: str
    node: onnx_ir.Node | None = None
    kinds: frozenset[FlawKind] = frozenset()


@dataclass(frozen=True, slots=True)
class ValueItem:
    """A value in short form, as an operand or result of a node, or by itself: a constant, an input, an output.

    Attributes:
        name: The name; empty for a value without one.
        element: The element type, `?` if unknown.
        dims: The shape in brackets, such as `[N, 4]`; empty if unknown.
        content: The elements of a constant, elided if there are many; None if they are not shown.
        role: The role of the value or its producer, unless obvious: `input`, `constant`, `return`, `Relu`.
    """

    name: str
    element: str = ""
    dims: str = ""
    content: str | None = None
    role: str = ""

    @property
    def type(self) -> str:
        """The element type and shape in ONNX text: `float[N, 4]`."""
        return self.element + self.dims

    @property
    def names(self) -> tuple[str, ...]:
        """The names of values that the item mentions."""
        return (self.name,)

    @property
    def made(self) -> tuple[str, ...]:
        """The names of the values that the item makes."""
        return () if self.content is None else (self.name,)

    @property
    def code(self) -> str:
        """The item as ONNX text, without comment: `float[3] w = {1, 2, 3}`."""
        text = " ".join(filter(None, (self.role, self.type, self.name or "?")))
        return text if self.content is None else f"{text} = {{{self.content}}}"

    @property
    def comment(self) -> str:
        """The comment after the code; a value has none."""
        return ""

    @property
    def operand(self) -> str:
        """The value as an operand of a node: its name, and the element of a constant that has one."""
        return (self.name or "?") + ("" if self.content is None else f" {{{self.content}}}")


@dataclass(frozen=True, slots=True)
class NodeItem:
    """A node in short form. An absent input is None; `attributes` are pairs of name and shortened value."""

    op_type: str
    inputs: tuple[ValueItem | None, ...] = ()
    outputs: tuple[ValueItem, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    domain: str = ""
    name: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of values that the item mentions."""
        return tuple(value.name for value in (*self.outputs, *self.inputs) if value is not None and value.name)

    @property
    def made(self) -> tuple[str, ...]:
        """The names of the values that the node makes."""
        return tuple(value.name for value in self.outputs if value.name)

    @property
    def operator(self) -> str:
        """The operator with its domain, unless that is the standard's."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    @property
    def call(self) -> str:
        """The operator and its attributes: `Cast <to = float>`."""
        attributes = ", ".join(f"{name} = {text}" for name, text in self.attributes)
        return f"{self.operator} <{attributes}>" if attributes else self.operator

    @property
    def code(self) -> str:
        """The item as ONNX text, without comment: `y = Cast <to = float> (x)`."""
        inputs = ", ".join("" if value is None else value.operand for value in self.inputs)
        return f"{', '.join(value.name or '?' for value in self.outputs)} = {self.call} ({inputs})"

    @property
    def comment(self) -> str:
        """The types of the inputs and outputs: `(int64[N]) -> float[N]`."""
        takes = ", ".join(value.type for value in self.inputs if value is not None)
        return f"({takes}) -> {', '.join(value.type for value in self.outputs)}"


@dataclass(frozen=True, slots=True)
class TextItem:
    """Anything that is neither a node nor a value, such as `opset 21`, or the text of a foreign pass."""

    code: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of values that the item mentions: none, since text is not parsed."""
        return ()

    @property
    def made(self) -> tuple[str, ...]:
        """The names of the values that the item makes: none, since text is not parsed."""
        return ()

    @property
    def comment(self) -> str:
        """The comment after the code; text has none."""
        return ""


Item = NodeItem | ValueItem | TextItem


def item_text(item: Item) -> str:
    """The item as a line of ONNX text, with its comment: `y = Cast <to = float> (x)  # (int64[N]) -> float[N]`."""
    return f"{item.code}  # {item.comment}" if isinstance(item, NodeItem) else item.code


def items_text(items: Sequence[Item]) -> str:
    """The items as ONNX text, one below the other."""
    return "\n".join(map(item_text, items))


def _items(items: str | Item | Sequence[Item]) -> tuple[Item, ...]:
    if isinstance(items, str):
        return (TextItem(items),) if items else ()
    return (items,) if isinstance(items, NodeItem | ValueItem | TextItem) else tuple(items)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One change: the nodes and values removed and made, why, by which rule, and how exact.

    `before` and `after` are ONNX text, rendered from the items removed and made. A record is made from items
    (`castsmith.ir.text`), or from text.

    Attributes:
        pass_name: The name of the pass.
        rule: The stable code of the rule.
        site: The place of the change.
        removed: The nodes and values that were removed, in short form.
        made: The nodes and values that were made, in short form.
        reason: The reason, one sentence.
        effect: The effect on values.
        saved_bytes: Bytes no longer read and written per run of the model, at the known or assumed sizes; None if not
            counted.
    """

    pass_name: str
    rule: str
    site: Site
    removed: tuple[Item, ...]
    made: tuple[Item, ...]
    reason: str
    effect: Effect
    saved_bytes: int | None

    def __init__(
        self,
        pass_name: str,
        rule: str,
        site: Site,
        before: str | Item | Sequence[Item] = (),
        after: str | Item | Sequence[Item] = (),
        reason: str = "",
        effect: Effect = Effect.BIT_EXACT,
        saved_bytes: int | None = None,
        *,
        removed: Sequence[Item] = (),
        made: Sequence[Item] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "pass_name", pass_name)
        put(self, "rule", rule)
        put(self, "site", site)
        put(self, "removed", (before,) if type(before) is NodeItem else _items(before or removed))
        put(self, "made", _items(after or made))
        put(self, "reason", reason)
        put(self, "effect", effect)
        put(self, "saved_bytes", saved_bytes)

    @property
    def before(self) -> str:
        """The removed items, as ONNX text."""
        return items_text(self.removed)

    @property
    def after(self) -> str:
        """The new items, as ONNX text."""
        return items_text(self.made)

    def __str__(self) -> str:
        return f"{self.site}: {self.rule} {self.reason}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that a rule would have made except for `reason`.

    Attributes:
        pass_name: The name of the pass.
        rule: The stable code of the rule.
        site: The place of the refused change.
        reason: The reason, one sentence.
        witness: A value that shows the reason, or empty.
    """

    pass_name: str
    rule: str
    site: Site
    reason: str
    witness: str = ""

    def __str__(self) -> str:
        return f"{self.site}: {self.rule} {self.reason}{f' (example value: {self.witness})' if self.witness else ''}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding about a model.

    Attributes:
        code: The stable code of the finding.
        severity: The severity.
        site: The place.
        message: A sentence that says what is wrong and where.
        help: The fix, or empty.
        subject: What the finding is about where that is not its place, such as an element type of the whole model; the
            same from run to run.
        follows: The index, in the list that `check` returns, of the finding from which this one follows, and with which
            it goes away; None for a cause.
    """

    code: str
    severity: Severity
    site: Site
    message: str
    help: str = ""
    subject: str = field(default="", compare=False, repr=False)
    follows: int | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.site}: {self.code} {self.message}{f' ({self.help})' if self.help else ''}"


@dataclass
class Records:
    """The records of one or several passes, in the order in which they were made.

    Attributes:
        rewrites: The changes that were made.
        refusals: The changes that were not made, each with its reason.
        diagnostics: The findings.
    """

    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def extend(self, other: Records) -> None:
        self.rewrites += other.rewrites
        self.refusals += other.refusals
        self.diagnostics += other.diagnostics


@dataclass
class RewriteResult(onnx_ir.passes.PassResult):
    """An onnx_ir PassResult that carries the records of the pass.

    Attributes:
        model: The model after the pass.
        modified: True if the pass changed the model.
        records: The records of the pass.
    """

    records: Records = field(default_factory=Records)
