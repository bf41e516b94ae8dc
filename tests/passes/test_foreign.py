"""Passes of others in our managers: each change is recorded once, under the name of the pass or the one asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import onnx_ir
import pytest
from onnx_ir.passes import FunctionalPass, InPlacePass, PassError, PassManager, PassResult, Sequential

from castsmith.ir.records import Records, Rewrite, RewriteResult, Site
from castsmith.passes import PassManager as OurPassManager, Sequential as OurSequential, SimplifyCasts
from castsmith.passes.managers import run_recorded

TEXT = """<ir_version: 10, opset_import: ["": 21]>
g (float[4] x) => (float[4] y) { a = Abs (x) b = Cast <to = 11> (a) c = Cast <to = 1> (b) y = Neg (c) }"""
Step = Callable[[onnx_ir.Model], bool]


def model() -> onnx_ir.Model:
    return onnx_ir.from_onnx_text(TEXT)


def turn(before: str, after: str) -> Step:
    """Return a step that changes operators without a record."""

    def step(changed: onnx_ir.Model) -> bool:
        nodes = [node for node in changed.graph if node.op_type == before]
        for node in nodes:
            node.op_type = after
        return bool(nodes)

    return step


def simplify(changed: onnx_ir.Model) -> bool:
    return SimplifyCasts()(changed).modified


class Foreign(InPlacePass):
    """Runs steps, and says whether one of them changed something, or what it is told to say."""

    def __init__(self, *steps: Step, says: bool | None = None) -> None:
        self.steps, self.says = steps, says

    def call(self, model: onnx_ir.Model) -> PassResult:
        changed = [step(model) for step in self.steps]
        return PassResult(model, any(changed) if self.says is None else self.says)


class Known(Foreign):
    """Gives a record of its own with its result."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        result = super().call(model)
        rewrite = Rewrite("known", "rule", Site("g"), "before", "after", "because")
        return RewriteResult(model, result.modified, Records([rewrite] if result.modified else []))


class Copying(FunctionalPass):
    def call(self, model: onnx_ir.Model) -> PassResult:
        copy = model.clone()
        return PassResult(copy, turn("Neg", "Abs")(copy))


@dataclass
class Case:
    steps: tuple[Step, ...]
    names: list[str]
    modified: bool = True
    says: bool | None = None
    left: list[str] = field(default_factory=lambda: ["Abs", "Cast", "Cast", "Neg"])


CASES = {
    "nothing": Case((), [], modified=False),
    "own": Case((turn("Abs", "Sin"),), ["mine"], left=["Sin", "Cast", "Cast", "Neg"]),
    "ours": Case((simplify,), ["simplify-casts"], left=["Abs", "Neg"]),
    "own, ours": Case((turn("Abs", "Sin"), simplify), ["mine", "simplify-casts"], left=["Sin", "Neg"]),
    "ours, own": Case((simplify, turn("Abs", "Sin")), ["simplify-casts", "mine"], left=["Sin", "Neg"]),
    "own, ours, own": Case((turn("Abs", "Sin"), simplify, turn("Neg", "Cos")), ["mine", "simplify-casts", "mine"],
                           left=["Sin", "Cos"]),
    "ours twice": Case((simplify, simplify), ["simplify-casts"], left=["Abs", "Neg"]),
    "there and back": Case((turn("Abs", "Sin"), turn("Sin", "Abs")), []),
    "silent": Case((turn("Abs", "Sin"),), ["mine"], says=False, left=["Sin", "Cast", "Cast", "Neg"]),
    "ours, silent": Case((simplify,), ["simplify-casts"], says=False, left=["Abs", "Neg"]),
    "boasting": Case((), [], says=True),
}  # fmt: skip


def names(result: PassResult) -> list[str]:
    assert isinstance(result, RewriteResult)
    pass_names = [rewrite.pass_name for rewrite in result.records.rewrites]
    return [name for index, name in enumerate(pass_names) if index == 0 or pass_names[index - 1] != name]


def test_changes_of_a_foreign_pass_and_of_ours_in_it() -> None:
    for key, case in CASES.items():
        start = model()
        result = run_recorded(Foreign(*case.steps, says=case.says), start, "mine")
        assert (names(result), result.modified) == (case.names, case.modified), key
        assert [node.op_type for node in result.model.graph] == case.left, key
        managed = OurSequential(Foreign(*case.steps, says=case.says))(model())
        assert names(managed) == [name.replace("mine", "Foreign") for name in case.names], key
        assert managed.modified == case.modified, key


def test_a_foreign_pass_that_gives_records() -> None:
    result = run_recorded(Known(turn("Abs", "Sin")), model(), "mine")
    assert (names(result), result.modified) == (["known"], True)
    assert names(run_recorded(Known(simplify), model(), "mine")) == ["simplify-casts"]
    assert names(run_recorded(Known(), model(), "mine")) == []


def test_a_foreign_pass_that_copies() -> None:
    start = model()
    result = run_recorded(Copying(), start, "mine")
    assert names(result) == ["mine"]
    assert result.model is not start
    assert [node.op_type for node in start.graph][-1] == "Neg"


def test_managers_of_others_become_ours() -> None:
    steps = Foreign(turn("Abs", "Sin")), Foreign(turn("Sin", "Cos"))
    for manager in (Sequential(*steps), PassManager(steps, steps=1), OurSequential(*steps)):
        assert names(run_recorded(manager, model(), "mine")) == ["Foreign"]
        assert names(OurSequential(manager)(model())) == ["Foreign"]
    back_and_forth = [Foreign(turn("Sin", "Tan"), turn("Abs", "Sin"), turn("Tan", "Abs"))]
    for turns, early, count_of_rewrites in ((1, True, 1), (3, True, 3), (3, False, 3)):
        for manager in (PassManager(back_and_forth, steps=turns, early_stop=early),
                        OurPassManager(back_and_forth, steps=turns, early_stop=early)):  # fmt: skip
            result = run_recorded(manager, model(), "mine")
            assert len(result.records.rewrites) == count_of_rewrites
    counted: list[int] = []

    def count(_model: onnx_ir.Model) -> bool:
        counted.append(1)
        return False

    for early, turns in ((True, 1), (False, 4)):
        for kind in (PassManager, OurPassManager):
            counted.clear()
            OurSequential(kind([Foreign(count)], steps=4, early_stop=early))(model())
            assert len(counted) == turns


def test_an_error_names_the_passes_as_they_name_themselves() -> None:
    class Named(Foreign):
        def __str__(self) -> str:
            return "mine"

    def fail(_model: onnx_ir.Model) -> bool:
        raise KeyError

    text = r"when running the 'mine' pass after the following passes: \['mine'\]"
    with pytest.raises(PassError, match=text):
        OurSequential(Named(), Named(fail))(model())


def test_a_model_out_of_order_is_compared_from_where_it_can_be() -> None:
    start = model()
    nodes = list(start.graph)
    start.graph.remove(nodes)
    start.graph.extend(reversed(nodes))

    def order(changed: onnx_ir.Model) -> bool:
        changed.graph.sort()
        return True

    assert names(run_recorded(Foreign(turn("Abs", "Sin")), start, "mine")) == []
    assert names(run_recorded(Foreign(order, simplify, turn("Sin", "Cos")), start, "mine")) == [
        "simplify-casts",
        "mine",
    ]
