"""What comparing two models found: equal, different or inconclusive, with what was compared and what was not."""

from __future__ import annotations

from dataclasses import dataclass, field

from castsmith.ir.notebook import notebook_html
from castsmith.ir.records import NodeItem, Site, item_text
from castsmith.ir.verify.compare import Count, Difference

EQUAL, DIFFERENT, INCONCLUSIVE = "equal", "different", "inconclusive"


@dataclass(frozen=True)
class Mismatch:
    """The first value, in the order of B, that differs: where both models have it, else an output.

    nodes: what makes it in A and in B; None for what no node makes. operands: its inputs at the element.
    within: the nodes around it, by what they give, and their turns, where it stands in control flow or a function.
    """

    inputs: str
    value: str
    site: Site
    nodes: tuple[NodeItem | None, NodeItem | None]
    difference: Difference
    operands: tuple[str, ...] = ()
    within: tuple[str, ...] = ()

    @property
    def node_a(self) -> str:
        """What makes it in A, as ONNX text; empty where no node does."""
        return "" if self.nodes[0] is None else item_text(self.nodes[0])

    @property
    def node_b(self) -> str:
        """What makes it in B, as ONNX text; empty where no node does."""
        return "" if self.nodes[1] is None else item_text(self.nodes[1])


@dataclass
class Verdict:
    """What comparing two models found. It is true exactly if they are equal: `assert castsmith.verify(a, b)`.

    outcome: `equal`, `different` or `inconclusive`. mismatch: the first value that differs. interface: differences of
        the declared inputs and outputs, in words. unsure: why the models cannot be called equal, in words.
    runs: the sets of inputs on which both ran. skipped: sets on which the first does not run, and why.
    outputs: what was compared of each output. proven: the outputs shown to be equal for all inputs, and how.
    accepted: differences of the interface that were accepted and compared through, in words.
    not_reached: branches that no input took, loops that made no turn, results that never varied or were never finite.
    runtime: what the engine makes of the second model, run whole, where that is not what the model means.
    stood_in: operators that the reference implementation ran in place of the engine. computed: the operators that each
        ran, `castsmith` for exact arithmetic. notes: what else should be known.
    """

    engine: str
    mismatch: Mismatch | None = None
    interface: list[str] = field(default_factory=list[str])
    unsure: list[str] = field(default_factory=list[str])
    runs: list[str] = field(default_factory=list[str])
    skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    outputs: dict[str, Count] = field(default_factory=dict[str, Count])
    proven: dict[str, str] = field(default_factory=dict[str, str])
    accepted: list[str] = field(default_factory=list[str])
    not_reached: list[str] = field(default_factory=list[str])
    runtime: list[str] = field(default_factory=list[str])
    stood_in: tuple[str, ...] = ()
    computed: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    notes: list[str] = field(default_factory=list[str])
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return self.outcome == EQUAL

    @property
    def outcome(self) -> str:
        """`different` where anything differs, `inconclusive` where that cannot be told, else `equal`."""
        if self.mismatch is not None or self.interface:
            return DIFFERENT
        return INCONCLUSIVE if self.unsure else EQUAL

    @property
    def equal(self) -> bool:
        """True if nothing differs and everything was compared."""
        return self.outcome == EQUAL

    @property
    def different(self) -> bool:
        """True if a value or the interface differs."""
        return self.outcome == DIFFERENT

    @property
    def inconclusive(self) -> bool:
        """True if nothing was found to differ, but not enough was compared."""
        return self.outcome == INCONCLUSIVE

    @property
    def same(self) -> bool:
        """As `equal`."""
        return self.equal

    @property
    def elements(self) -> int:
        """The elements of outputs that the first model gave, on all sets."""
        return sum(count.elements for count in self.outputs.values())

    @property
    def undefined(self) -> int:
        """Those of them that were left out, as the standard leaves them undefined."""
        return sum(count.left_out for count in self.outputs.values())

    @property
    def compared(self) -> int:
        """Those of them that were compared."""
        return self.elements - self.undefined

    def summary(self) -> str:
        """One sentence: the outcome and what it rests on."""
        if self.mismatch is not None:
            found = self.mismatch
            place = list(found.difference.index) if found.difference.index else ""
            what = (
                f"{found.value}{place} is {found.difference.a} and {found.difference.b}"
                if found.value
                else found.difference.b
            )
            return f"different: {what} on inputs {found.inputs}"
        if self.interface:
            return f"different: {self.interface[0]}"
        text = f"{self.compared} of {self.elements} elements of outputs compared on {len(self.runs)} sets of inputs"
        if self.proven and len(self.proven) == len(self.outputs):
            text = f"proven for all inputs; {text}"
        elif self.proven:
            text = f"{len(self.proven)} of {len(self.outputs)} outputs proven for all inputs; {text}"
        return f"equal: {text}" if self.equal else f"inconclusive: {self.unsure[0]}; {text}"

    def _repr_html_(self) -> str:
        head = ("output", "how", "elements compared", "left out")
        rows = [
            (name, "proven" if name in self.proven else "tested", str(count.compared), str(count.left_out))
            for name, count in self.outputs.items()
        ]
        lines = [*self.interface, *self.unsure, *self.not_reached, *self.runtime, *self.notes]
        return notebook_html(self.summary(), [(head, rows)], lines)
