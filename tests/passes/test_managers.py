"""Records come out of every pass manager, Castsmith's and onnx_ir's; each pass stands between passes of others."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import onnx_ir
import pytest
from onnx_ir.passes import InPlacePass, PassManager, PassResult, PreconditionError, Sequential, common, functionalize

import castsmith
from castsmith.ir.errors import OrderError
from castsmith.passes import (
    FoldConstants,
    InsertPromoteTypes,
    PassManager as OurPassManager,
    ResolvePromoteTypes,
    RewritePass,
    Sequential as OurSequential,
    SimplifyCasts,
)
from tests.examples.placing import in_a_branch, in_a_function, submodels
from tests.examples.test_composition import KNOWS_NEW, LOWERINGS, MIXED, MODELS, PASSES, PIPELINE, THEIRS, run
from tests.sampling import sampled

Place = Callable[[onnx_ir.Model], onnx_ir.Model]

PLACES: dict[str, Place] = {
    "main": lambda model: model,
    "function": in_a_function,
    "branch": in_a_branch,
    "submodel": lambda model: submodels(model)[0],
}
NOTHING_TO_DO = {
    **{("ResolvePromoteTypes", place): "there is no promotion before another pass has put one" for place in PLACES},
    **{(name, place): "it does nothing unless asked" for name in ("NarrowTypes", "UseVendor") for place in PLACES},
    ("FoldShapes", "function"): "the inputs of a function have no shapes",
    **({} if KNOWS_NEW else {("LegalizeVersion", place): "onnx is too old to know a model for it" for place in PLACES}),
}
NOT_RUNNABLE = ("mixed", "trunc", "quant", "bfloat16", "custom", "new")
"""Models that ONNX Runtime takes only when the whole pipeline is done with them."""


def mixed() -> onnx_ir.Model:
    return onnx_ir.from_onnx_text(MIXED)


def repairing() -> tuple[RewritePass, ...]:
    return (InsertPromoteTypes(promote_unsafe=True), ResolvePromoteTypes(), FoldConstants(), SimplifyCasts())


@pytest.mark.parametrize(
    ("name", "place"),
    sampled("places of passes between others", itertools.product(PASSES, PLACES), len(PASSES), cover=enumerate),
)
def test_each_pass_between_those_of_onnxscript(name: str, place: str) -> None:
    """The checker, one of theirs, stands on both sides; the bits stay where the model runs before."""
    changed = False
    for kind, text in MODELS.items():
        if not PASSES[name](PLACES[place](onnx_ir.from_onnx_text(text))).modified:
            continue
        model = PLACES[place](onnx_ir.from_onnx_text(text))
        expected = None if kind in NOT_RUNNABLE else run(model)
        checker = common.CheckerPass()
        sequence = OurSequential(*THEIRS, checker, PASSES[name], *THEIRS, checker)
        result = sequence(model)
        changed |= bool(result.records.rewrites)
        if expected is not None:
            assert run(result.model) == expected
    assert changed or (name, place) in NOTHING_TO_DO


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [name for name in MODELS if name != "bfloat16"])
def test_the_pipeline_in_a_sequence_is_optimize(name: str, place: str) -> None:
    model = PLACES[place](onnx_ir.from_onnx_text(MODELS[name]))
    android, unsafe = castsmith.load_target("onnxruntime-android"), castsmith.PromotionRules(promote_unsafe=True)
    alone = castsmith.optimize(model, target=android, promotion=unsafe, lowerings=LOWERINGS).model
    result = OurSequential(*(PASSES[other] for other in PIPELINE))(model)
    assert run(result.model) == run(alone)


def test_the_results_of_our_pass_managers_carry_the_records() -> None:
    each = [step(model).records.rewrites for model in [mixed()] for step in repairing()]
    expected = [rewrite for rewrites in each for rewrite in rewrites]
    assert len({rewrite.pass_name for rewrite in expected}) >= 3
    sequence = OurSequential(common.TopologicalSortPass(), *repairing(), common.RemoveUnusedNodesPass())(mixed())
    assert sequence.modified
    assert sequence.records.rewrites == expected
    managed = OurPassManager([*repairing(), common.RemoveUnusedNodesPass()], steps=4)(mixed())
    assert managed.records.rewrites == expected
    nested = OurSequential(PassManager([OurSequential(*repairing())], steps=2), functionalize(SimplifyCasts()))(mixed())
    assert nested.records.rewrites == expected


def test_a_recording_hears_what_runs_in_pass_managers_of_others() -> None:
    expected = OurSequential(*repairing())(mixed()).records.rewrites
    with castsmith.recording() as outer:
        SimplifyCasts()(mixed())
        with castsmith.recording() as inner:
            Sequential(PassManager([*repairing()], steps=3))(mixed())
    assert inner.rewrites == expected
    assert outer.rewrites[-len(expected) :] == expected
    SimplifyCasts()(mixed())
    assert inner.rewrites == expected


def test_a_recording_is_of_its_thread() -> None:
    with castsmith.recording() as records:
        thread = threading.Thread(target=lambda: InsertPromoteTypes(promote_unsafe=True)(mixed()))
        thread.start()
        thread.join()
    assert records == castsmith.Records()


def test_a_recording_ends_with_an_error_too() -> None:
    with pytest.raises(castsmith.PromotionError), castsmith.recording():
        InsertPromoteTypes()(mixed())
    with castsmith.recording() as records:
        pass
    InsertPromoteTypes(promote_unsafe=True)(mixed())
    assert records == castsmith.Records()


def test_a_pass_of_ones_own_is_heard_too() -> None:
    class Remark(RewritePass):
        def call(self, model: onnx_ir.Model) -> castsmith.RewriteResult:
            site = castsmith.Site(model.graph.name or "")
            remark = castsmith.Diagnostic("seen", castsmith.Severity.NOTE, site, "seen")
            return castsmith.RewriteResult(model, False, castsmith.Records(diagnostics=[remark]))

    result = OurSequential(Remark(), *repairing())(mixed())
    assert [record.code for record in result.records.diagnostics] == ["seen"]


class Told(InPlacePass):
    """A pass of another that says when its conditions are looked at."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def requires(self, model: onnx_ir.Model) -> None:
        self.told.append(f"requires {len(model.functions)}")

    def call(self, model: onnx_ir.Model) -> PassResult:
        return PassResult(model, False)

    def ensures(self, model: onnx_ir.Model) -> None:
        self.told.append(f"ensures {len(model.functions)}")


def test_conditions_of_others_are_looked_at() -> None:
    told = Told()
    OurSequential(told, InsertPromoteTypes(promote_unsafe=True), told)(mixed())
    assert [line.split()[0] for line in told.told] == ["requires", "ensures"] * 2
    assert told.told[0] != told.told[2]


@pytest.mark.parametrize(("steps", "early_stop", "runs"), [(3, False, 3), (3, True, 1), (2, False, 2)])
def test_a_manager_of_onnx_ir_in_ours_keeps_its_settings(steps: int, early_stop: bool, runs: int) -> None:
    told = Told()
    OurSequential(PassManager([told], steps, early_stop))(mixed())
    assert len(told.told) == 2 * runs


class Twice(InPlacePass):
    """A pass of another that runs one of ours twice, and says that it changed nothing."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        assert [SimplifyCasts()(model).modified for _ in range(2)] == [True, False]
        return PassResult(model, False)


def test_a_change_of_one_of_ours_counts_whatever_the_pass_around_it_says() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[2] x) => (float[2] y) { a = Cast <to = 1> (x) y = Neg (a) }"""
    assert OurSequential(Twice())(onnx_ir.from_onnx_text(text)).modified


def test_nodes_out_of_order_do_not_meet_what_promotion_requires() -> None:
    model = mixed()
    nodes = list(model.graph)
    model.graph.remove(nodes)
    model.graph.extend(reversed(nodes))
    with pytest.raises(OrderError, match="which a later node makes") as caught:
        InsertPromoteTypes(promote_unsafe=True)(model)
    assert isinstance(caught.value, PreconditionError)
    OurSequential(common.TopologicalSortPass(), *repairing())(model)
    assert run(model)
