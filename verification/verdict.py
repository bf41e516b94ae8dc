"""The result of comparing two models: equal, different or inconclusive, with what was compared and what was not."""

from __future__ import annotations

from dataclasses import dataclass, field

from castsmith.ir.notebook import notebook_html
from castsmith.ir.records import NodeItem, Site, item_text
from castsmith.verification.compare import Count, Difference, Tolerance

EQUAL, DIFFERENT, INCONCLUSIVE = "equal", "different", "inconclusive"


@dataclass(frozen=True)
class Mismatch:
    """The first value, in the order of B, that differs: one that both models have, or an output.

    Attributes:
        nodes: The nodes that make it in A and in B; None if no node does.
        operands: Its operands at the element.
        within: The outer nodes, by their results, and their iterations, if it is in control flow or a function.
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
        """The node that makes it in A, as ONNX text; empty if no node does."""
        return "" if self.nodes[0] is None else item_text(self.nodes[0])

    @property
    def node_b(self) -> str:
        """The node that makes it in B, as ONNX text; empty if no node does."""
        return "" if self.nodes[1] is None else item_text(self.nodes[1])


@dataclass(frozen=True)
class Traced:
    """How a value of both models departs, on the inputs that show a difference, or on the first.

    Attributes:
        value: Its name.
        magnitude: The largest absolute value of an element in A.
        error: The largest difference of an element, relative to the magnitude; infinite where only one is a number.
    """

    value: str
    magnitude: float
    error: float


@dataclass
class Verdict:
    """The result of comparing two models. It is true exactly if they are equal: `assert castsmith.verify(a, b)`.

    Attributes:
        engine: The engine that ran everything except conversions.
        mismatch: The first value that differs, or None.
        interface: Differences of the declared inputs and outputs, in words.
        unsure: Reasons why the models cannot be called equal, in words.
        advice: What would decide that, in words.
        tolerances: The tolerance of each output, if it has one.
        runs: The sets of inputs on which both ran.
        skipped: Sets on which the first does not run, with reasons.
        outputs: Counts of compared elements of each output.
        proven: The outputs proven equal for all inputs, with reasons.
        accepted: Accepted differences of the interface, in words.
        not_reached: Branches that no input took, loops without iterations, results that never varied or were never
            finite.
        runtime: Results of the engine for the whole second model that differ from its meaning.
        stood_in: Operators that the reference implementation ran instead of the engine.
        computed: The operators by engine, `castsmith` for exact arithmetic.
        notes: Further remarks.
        seconds: The time that the comparison took.
        traced: Floating-point values that both models have, in the order of B, if `trace` asks for them.
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
    advice: list[str] = field(default_factory=list[str])
    tolerances: dict[str, Tolerance] = field(default_factory=dict[str, Tolerance])
    traced: list[Traced] = field(default_factory=list[Traced])

    def __bool__(self) -> bool:
        return self.outcome == EQUAL

    @property
    def outcome(self) -> str:
        """`different` if there is a difference, `inconclusive` if that is undecided, else `equal`."""
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
        """The same as `equal`."""
        return self.equal

    @property
    def elements(self) -> int:
        """The elements of outputs that the first model gave, on all sets."""
        return sum(count.elements for count in self.outputs.values())

    @property
    def undefined(self) -> int:
        """Those of them that were omitted, as the standard leaves them undefined."""
        return sum(count.left_out for count in self.outputs.values())

    @property
    def compared(self) -> int:
        """Those of them that were compared."""
        return self.elements - self.undefined

    def summary(self) -> str:
        """One sentence: the outcome and its basis."""
        if self.mismatch is not None:
            mismatch = self.mismatch
            difference = mismatch.difference
            if not mismatch.value:
                return f"different: on inputs {mismatch.inputs} the second model {difference.b}"
            place = list(difference.index) if difference.index else ""
            return (
                f"different: {mismatch.value}{place} is {difference.a} and {difference.b} on inputs {mismatch.inputs}"
            )
        if self.interface:
            return f"different: {self.interface[0]}"
        outcome, evidence = evidence_of(self)
        return outcome + evidence if self.equal else f"{outcome}: {self.unsure[0]}; {evidence.removeprefix(': ')}"

    def __repr__(self) -> str:
        return f"<Verdict: {self.summary()}>"

    def _repr_html_(self) -> str:
        head = ("output", "how", "elements compared", "left out")
        rows = [
            (name, "proven" if name in self.proven else "tested", str(count.compared), str(count.left_out))
            for name, count in self.outputs.items()
        ]
        lines = [*self.interface, *self.unsure, *self.advice, *self.not_reached, *self.runtime, *self.notes]
        return notebook_html(self.summary(), {"outputs": (head, rows)}, lines)


def evidence_of(verdict: Verdict) -> tuple[str, str]:
    """Return the outcome of models that do not differ, and its evidence: equal is only what is proven."""
    elements = f"{verdict.compared} of {verdict.elements} elements of outputs compared"
    proven, sets = len(verdict.proven), f"{len(verdict.runs)} set{'' if len(verdict.runs) == 1 else 's'} of inputs"
    if verdict.equal and proven and not verdict.runs:
        return "equal", ", proven for all inputs by certificate"
    if verdict.equal and proven == len(verdict.outputs):
        return "equal", f", proven for all inputs; {elements}, on {sets}"
    outputs = f"{len(verdict.outputs)} output{'' if len(verdict.outputs) == 1 else 's'}"
    proven_text = f"; {proven} of {outputs} proven for all inputs" if proven else ""
    if verdict.equal:
        tolerances = [*dict.fromkeys(map(str, verdict.tolerances.values()))]
        within = f" within {tolerances[0] if len(tolerances) == 1 else 'the tolerances'}" if tolerances else ""
        return "match", f"{within} on {sets}: {elements}{proven_text}"
    return verdict.outcome, f": {elements}, on {sets}{proven_text}"
