"""What `fit` returns: the model, the plan that made it, and the other ways that were tried."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, cast

from castsmith.ir.records import Diagnostic
from castsmith.lowering.results import Accuracy, ConvertResult, Result
from castsmith.passes.core.options import flag_of

if TYPE_CHECKING:
    from castsmith.lowering.fit.cost import Cost


@dataclass(frozen=True)
class Step:
    """One call of `optimize` or `convert`.

    Attributes:
        command: The name of the function, and of the command.
        options: The options, as the function takes them.
        cost: The cost of the model after the step; None if the step was not done.
    """

    command: Literal["optimize", "convert"]
    options: Mapping[str, Any]
    cost: Cost | None = None

    def words(self, source: str, output: str) -> list[str]:
        """Return the words of the command that reads `source` and writes `output`."""
        options = (word for name, value in self.options.items() for word in _words(name, value))
        return ["castsmith", self.command, source, *options, "-o", output]

    def __str__(self) -> str:
        """Return the call as Python code, without the model."""
        return f"{self.command}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


def _words(name: str, value: object) -> list[str]:
    """Return an option of a function as words of a command line."""
    flag = flag_of(name)
    if isinstance(value, bool):
        return [flag] if value else []
    if isinstance(value, Mapping):
        ranges = cast("Mapping[str, tuple[float, float]]", value)
        texts = {key: ":".join(str(bound).removesuffix(".0") for bound in bounds) for key, bounds in ranges.items()}
        return [word for key, text in texts.items() for word in (flag, f"{key}={text}")]
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return [word for part in parts for word in (flag, str(part))]


@dataclass(frozen=True)
class Way:
    """A way that was tried.

    Attributes:
        steps: The calls, in order.
        legal: True if the target accepts the result.
        cost: The cost of the result; None if there is none.
        changes: What the user of the model notices besides speed: sums in another order, other types of inputs and
            outputs, rounding. Empty if every result is the same, bit for bit.
        lossy: True if values are rounded to another precision, which only `max_error` allows.
        error: The measured error; None if it was not measured.
        obstacles: Why the result is not legal, or cannot be made.
    """

    steps: tuple[Step, ...]
    legal: bool = False
    cost: Cost | None = None
    changes: tuple[str, ...] = ()
    lossy: bool = False
    error: Accuracy | None = None
    obstacles: tuple[str, ...] = ()

    def commands(self, source: str, output: str) -> list[str]:
        """Return the commands that make `output` from `source`, one for each step."""
        return commands_of(self.steps, source, output)


def commands_of(steps: Sequence[Step], source: str, output: str) -> list[str]:
    """Return the commands of the steps; all but the last write a file beside `output`."""
    if not steps:
        return []
    path = PurePath(output)
    between = [str(path.with_name(f"{path.stem}.{number}{path.suffix}")) for number in range(1, len(steps))]
    ends = pairwise([source, *between, output])
    return [shlex.join(step.words(*pair)) for step, pair in zip(steps, ends, strict=True)]


@dataclass(frozen=True, repr=False)
class FitResult(Result):
    """The model that the target accepts, with the plan that made it.

    If no way leads there, the plan is empty, the model is the one that was passed, and `diagnostics` has an error for
    each operator or value that stands in the way, as it is called there.

    Attributes:
        model: The model.
        rewrites: The changes of all steps of the plan.
        refusals: The changes that were not made, each with its reason.
        diagnostics: Findings of the last step; errors if no way leads to a legal model.
        verdict: None: what changes values is measured instead.
        certificate: None: a certificate is of one run of `optimize`.
        plan: The steps, each with the cost of the model after it.
        changes: As in Way, of the plan.
        error: The measured error; None if no value was rounded.
        before: The cost of the model as it was passed.
        ways: All ways that were tried, the best one first.
        findings: What `check` finds in the model for the target.
        hint: A cheaper way that was not taken, and what allows it; or what would be needed. Empty if there is none.
        conversion: What the step that rounds values did; None if no value was rounded.
    """

    plan: list[Step] = field(default_factory=list[Step])
    changes: tuple[str, ...] = ()
    error: Accuracy | None = None
    before: Cost | None = None
    ways: list[Way] = field(default_factory=list[Way])
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    hint: str = ""
    conversion: ConvertResult | None = None

    def commands(self, source: str, output: str) -> list[str]:
        """Return the commands that make the model, written to `output`, from the file `source`."""
        return commands_of(self.plan, source, output)

    def summary(self) -> str:
        """Return one sentence: the steps of the plan, and the counts of their records."""
        how = ", then ".join(map(str, self.plan)) or "no way found"
        return f"{how}; {super().summary()}"
