"""The sets of inputs on which two models are compared, with sizes and bounds on which the first one runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir

from castsmith.ir.walks import all_nodes
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.compare import Interfaces, interfaces
from castsmith.verification.evaluate.conversions import Content
from castsmith.verification.evaluate.engines import EngineError
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.indices import RangeError
from castsmith.verification.evaluate.limits import Budget
from castsmith.verification.inputs.demands import Demands
from castsmith.verification.inputs.drawn import Feeds, Inputs, Set, Sizes
from castsmith.verification.inputs.reach import Reach

SETS = 12
"""Default number of sets of adversarial inputs."""

_MORE_NODES = 8000
"""Number of nodes that may run on additional sets: the same number of sets on every machine."""

_MOST_TRIALS = 160
"""Sizes that are tried until the first model runs."""

_MOST_VARIANTS = 8
"""Other sizes on which it runs as well, which show dimensions that were made up or folded."""

_MOST_UNIFORM = 64
"""Sets of one number everywhere, to take branches that no other set takes."""

_MOST_TRIED = 1 << 24
"""Elements of a set whose sizes are tried: 64 MiB of float."""

_PATIENCE, _HASTE = 0.25, 0.025
"""The fractions of all steps that loops may take on one mild set, and on one of the others."""

_SIZES = (1, 2, 3, 4, 8, 16, 32, 64, 128, 224, 256, 512, 1024, 4096, 16000)


@dataclass
class Sets:
    """The sets of inputs for two models.

    Attributes:
        first: Runs the first model, to decide whether a set is suitable.
        notes: Collects notes for the report.
        demands: Elements that the inputs have to bring to values.
        made_up: The sizes chosen for symbolic dimensions.
        unread: The reason why the sets ended early.
    """

    a: onnx_ir.Model
    b: onnx_ir.Model
    first: Evaluator
    budget: Budget
    declared: Interfaces
    seed: int
    notes: list[str]
    demands: Demands = field(default_factory=Demands)
    made_up: dict[str, int] = field(default_factory=dict[str, int])
    unread: str = ""
    _last_run: tuple[Feeds, dict[str, Content]] | None = None

    def made(
        self,
        count: int,
        dims: Sizes,
        runs: Collection[str],
        wanting: Callable[[], bool],
        *,
        ordinary: bool = False,
    ) -> Iterator[tuple[str, Feeds]]:
        """Make sets on sizes on which the first model runs.

        Args:
            runs: The names of the sets on which both models ran so far.
            wanting: True while branches were not taken, or comparisons had only one result.
            ordinary: Make no adversarial inputs but ordinary numbers, on which results that are close stay close.
        """
        reaches = [Reach(model) for model in (self.a, self.b)]
        for name, recoding in self.declared.recoded.items():
            if recoding.limits is not None and name in reaches[0].needs:
                reaches[0].needs[name].narrow(*map(float, recoding.limits))
        for side, reach in enumerate(reaches):
            for value, demand in self.demands.values(side):
                reach.demand(value, demand.elements.astype(object).tolist())
        maker = Inputs((self.a, self.b), reaches, self.seed, self.budget.memory, dims)
        variants = self._fit(maker, reaches, maker.made_up)
        for kind, number in maker.plan(count, ordinary=ordinary):
            if self._late(f"{kind} {number}"):
                return
            elsewhere = variants and (kind in ("finite", "ordinary") or (kind, number) == ("mild", 2))
            sizes = variants[number % len(variants)] if elsewhere else None
            yield f"{kind} {number}", self._feeds(maker, reaches, (kind, number), sizes)
            if f"{kind} {number}" not in runs and self._late(f"{kind} {number}"):
                return
        if not runs or ordinary:
            return
        nodes = sum(1 for model in (self.a, self.b) for _ in all_nodes(model))
        part = int(_MORE_NODES / max(nodes, 1) * min(1.0, count / SETS))
        affordable = 1 << part.bit_length() - 1 if part else 0  # in steps, so that a node more or less changes nothing
        more = list(maker.more(count))
        if len(more) > affordable:
            text = f"small inputs would need {len(more)} more sets to cover every useful value; {affordable} were run"
            self.notes.append(f"{text} (`sets=`)")
        for kind, number in more[:affordable]:
            if self.budget.left <= 0:
                self.notes.append(f"the time limit was exceeded before inputs {kind} {number} (`seconds=` allows more)")
                return
            yield f"{kind} {number}", self._feeds(maker, reaches, (kind, number), None)
        for kind, number in list(maker.uniform())[: min(affordable, _MOST_UNIFORM)]:
            if not wanting() or self.budget.left <= 0:
                return
            yield f"{kind} {number}", self._feeds(maker, reaches, (kind, number), None)

    def result(self, feeds: Feeds) -> dict[str, Content]:
        """Return the results of the first model on one set. Raises EngineError if it does not run."""
        return self._last_run[1] if self._last_run is not None and self._last_run[0] is feeds else self.first.run(feeds)

    def _may_try(self, part: float) -> bool:
        """True if another size may be tried: the trials take at most that part of the work, and half of the time."""
        return self.budget.tried < part and self.budget.left > self.budget.seconds / 2

    def _late(self, name: str) -> bool:
        if self.budget.left > 0:
            return False
        self.unread = (
            f"the time limit of {self.budget.seconds:g} s was exceeded before inputs {name} (`seconds=` allows more)"
        )
        return True

    def _feeds(self, maker: Inputs, reaches: list[Reach], chosen: Set, sizes: Mapping[str, int] | None) -> Feeds:
        """Return the arrays of one set, on which the first model runs if possible: indices are brought into range."""
        feeds = maker.make(*chosen, sizes)
        self.budget.part = _PATIENCE if chosen[0] == "mild" else _HASTE
        for _ in range(8):
            try:
                expected = self.first.run(feeds)
            except RangeError as error:
                if not reaches[0].repair(error):
                    break
                maker.update()
                feeds = maker.make(*chosen, sizes)
                continue
            except EngineError:
                break
            self._last_run = feeds, expected
            return feeds
        if chosen[0] == "mild":
            return feeds
        mild = maker.make("mild", chosen[1], sizes)
        integers = [
            v.name or "" for v in maker.values if v.dtype is not None and element_type(v.dtype).kind is Kind.INTEGER
        ]
        return {**feeds, **{name: mild[name] for name in integers if name in mild}} if integers else feeds

    def _fit(self, maker: Inputs, reaches: list[Reach], made_up: list[str]) -> list[dict[str, int]]:
        """Find sizes on which the first model runs, and return others on which it runs as well."""
        trials = 0

        def far(sizes: Mapping[str, int]) -> float:
            nonlocal trials
            if maker.elements(sizes) > _MOST_TRIED:
                return -1.0
            for _ in range(8):
                trials += 1
                try:
                    self.first.run(maker.make("mild", 1, sizes))
                except RangeError as error:
                    if not reaches[0].repair(error):
                        return self.first.progress
                    maker.update()
                except EngineError:
                    return self.first.progress
                else:
                    return float("inf")
            return self.first.progress

        best = max(0.0, far(maker.sizes))
        while made_up and best != float("inf") and trials < _MOST_TRIALS and self._may_try(0.5):
            better = next(
                (
                    (score, sizes)
                    for sizes in _neighbours(maker.sizes, made_up, self.a)
                    if trials < _MOST_TRIALS and self._may_try(0.5) and (score := far(sizes)) > best
                ),
                None,
            )
            if better is None:
                break
            best, maker.sizes = better
        self.made_up = {name: maker.sizes[name] for name in made_up}
        variants: list[dict[str, int]] = []
        if best == float("inf"):
            changes = [dict.fromkeys(made_up, step) for step in (1, -1)]
            changes += [{name: maker.sizes[name]} for name in made_up]
            for change in changes[:_MOST_VARIANTS]:
                sizes = {name: max(1, size + change.get(name, 0)) for name, size in maker.sizes.items()}
                if sizes != maker.sizes and self._may_try(0.1) and far(sizes) == float("inf"):
                    variants.append(sizes)
        return variants


_MOST_NAMES = 64
"""Symbolic dimensions whose sizes are varied one by one, and sizes that are added up in pairs."""


def _neighbours(sizes: Mapping[str, int], names: list[str], model: onnx_ir.Model) -> Iterator[dict[str, int]]:
    """Return sizes that differ from those given: each dimension by itself, and all at once."""
    weights = [
        dim
        for value in model.graph.initializers.values()
        if value.const_value is not None and len(value.const_value.shape) > 1
        for dim in value.const_value.shape.numpy()
    ]
    usual_sizes = list(dict.fromkeys([*_SIZES, *sorted(set(weights), key=weights.count, reverse=True)[:24]]))
    for name in names[:_MOST_NAMES]:
        other_sizes = list(dict.fromkeys(sizes[other_name] for other_name in names if other_name != name))[:_MOST_NAMES]
        sums = [x + y for i, x in enumerate(other_sizes) for y in other_sizes[i + 1 :]] + [x + 1 for x in other_sizes]
        for size in dict.fromkeys([*other_sizes, *sums, *usual_sizes]):
            if size != sizes[name]:
                yield {**sizes, name: size}
    for size in usual_sizes:
        yield {**sizes, **dict.fromkeys(names, size)}


def mild_sets(model: onnx_ir.Model, first: Evaluator, budget: Budget, dims: Sizes) -> Iterator[tuple[str, Feeds]]:
    """Make the sets of ordinary numbers on which the model runs, with sizes for its symbolic dimensions."""
    sets = Sets(model, model, first, budget, interfaces(model, model, ()), 0, [])
    return sets.made(0, dims, (), lambda: False)
