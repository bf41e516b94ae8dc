"""verify: two models run on inputs made to find differences, compared bit by bit; the first value that differs.

Each model is run one operator at a time (`castsmith.ir.verify_evaluate`), so that what is compared is what the models
mean and not what an engine makes of them. Where the engine is a runtime, the second model is run in it whole too, and
what that changes is told apart: it is the runtime's doing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir

from castsmith.ir.errors import ModelError
from castsmith.ir.loading import as_model
from castsmith.ir.opsets import require_known_opset
from castsmith.ir.records import Site
from castsmith.ir.text import node_text, site_of
from castsmith.ir.verify_compare import Difference, difference, element_text, on_common_ground
from castsmith.ir.verify_engines import ENGINES, OURSELVES, Engine, EngineError
from castsmith.ir.verify_evaluate import Evaluator, Path
from castsmith.ir.verify_exact import Mask
from castsmith.ir.verify_inputs import Array, input_sets, made_up_sizes
from castsmith.ir.verify_whole import Whole
from castsmith.ir.walks import all_nodes
from castsmith.numerics.promotion import PromotionRules

SETS = 12
"""How many sets of adversarial inputs are tried unless told otherwise."""


@dataclass(frozen=True)
class Mismatch:
    """The first value, in the order of B, that differs: where both models have it, else an output.

    node_a, node_b: what makes it, as ONNX text; empty for what no node makes. operands: its inputs at the element.
    within: the nodes around it, by what they give, and their turns, where it stands in control flow or a function.
    """

    inputs: str
    value: str
    site: Site
    node_a: str
    node_b: str
    difference: Difference
    operands: tuple[str, ...] = ()
    within: tuple[str, ...] = ()


@dataclass
class Verdict:
    """What comparing two models found.

    runs: the sets on which both ran. skipped: sets on which the first does not run, and why. undefined: how many
    elements of outputs were left out because the standard leaves them undefined. runtime: what the engine makes of the
    second model, run whole, where that is not what the model means. stood_in: operators that the reference
    implementation ran in place of the engine. computed: the operators that each ran, `castsmith` for exact arithmetic.
    """

    engine: str
    mismatch: Mismatch | None = None
    runs: list[str] = field(default_factory=list[str])
    skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    elements: int = 0
    undefined: int = 0
    runtime: list[str] = field(default_factory=list[str])
    stood_in: tuple[str, ...] = ()
    computed: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @property
    def same(self) -> bool:
        return self.mismatch is None


def verify(
    a: onnx_ir.Model | onnx.ModelProto | str | os.PathLike[str],
    b: onnx_ir.Model | onnx.ModelProto | str | os.PathLike[str],
    *,
    engine: str = "onnxruntime",
    promotion: PromotionRules | str | None = None,
    sets: int = SETS,
    seed: int = 0,
    nan_bits: bool = False,
    dims: Mapping[str, int] | None = None,
    inputs: Iterable[tuple[str, Mapping[str, Array]]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Verdict:
    """Whether `b` gives the bits of `a`; each is a model, a ModelProto or a file. Operands that disagree in
    type are promoted by `promotion`, the rules or the name of a preset.

    engine: what runs all but conversions, `onnxruntime`, `openvino` or `reference`. sets: how many sets of inputs are
    made from `seed`; `dims` gives sizes to symbolic dimensions, and `inputs` replaces the sets. nan_bits: whether NaN
    of another sign or payload is a difference.

    Raises ModelError where the interfaces differ, an opset is unknown, or no set of inputs runs; EngineError where
    there is no such engine; PromotionError where the rules refuse.
    """
    a, b = as_model(a), as_model(b)
    for model in (a, b):
        require_known_opset(model)
    _require_one_interface(a, b)
    rules = PromotionRules.preset(promotion) if isinstance(promotion, str) else promotion or PromotionRules()
    runner = Engine(engine)
    verdict = Verdict(engine)
    first, second = Evaluator(a, rules, runner), Evaluator(b, rules, runner)
    whole = Whole(b, engine) if engine != "reference" else None
    for name, feeds in inputs if inputs is not None else input_sets((a, b), sets, seed, dims):
        if progress is not None:
            progress(f"inputs: {name}")
        try:
            expected = first.run(feeds)
        except EngineError as error:
            verdict.skipped.append((name, str(error)))
            continue
        verdict.mismatch = _compare(first, second, name, feeds, expected, verdict, nan_bits)
        if verdict.mismatch is not None:
            break
        if whole is not None and not verdict.runtime:
            verdict.runtime += whole.differences(name, feeds, expected, nan_bits)
    verdict.stood_in = tuple(sorted(runner.stood_in))
    verdict.computed = {who: tuple(sorted(runner.ran[who])) for who in (OURSELVES, *ENGINES) if who in runner.ran}
    if not verdict.runs and verdict.mismatch is None:
        reason = verdict.skipped[0][1] if verdict.skipped else "there are no inputs."
        raise ModelError(
            f"the first model runs on none of the inputs: {reason.rstrip('.')}.{_way_out(a, dims, inputs)}"
        )
    return verdict


def _way_out(model: onnx_ir.Model, dims: Mapping[str, int] | None, inputs: object) -> str:
    """Sizes that were made up are the likeliest fault, as a model may fit one size of a symbolic dimension only."""
    sizes = {} if inputs is not None else made_up_sizes(model, dims)
    if not sizes:
        return ""
    taken = " ".join(f"{name}={size}" for name, size in sizes.items())
    return f" The sizes of symbolic dimensions were made up: {taken}. Give those that the model fits (--dim NAME=SIZE)."


def _require_one_interface(a: onnx_ir.Model, b: onnx_ir.Model) -> None:
    for what, left, right in (
        ("inputs", a.graph.inputs, b.graph.inputs),
        ("outputs", a.graph.outputs, b.graph.outputs),
    ):
        names = [[value.name or "" for value in side if not value.is_initializer()] for side in (left, right)]
        if sorted(names[0]) != sorted(names[1]):
            texts = (", ".join(side) or "none" for side in names)
            raise ModelError("the {} are not the same: {} and {}.".format(what, *texts))


def _compare(
    first: Evaluator,
    second: Evaluator,
    name: str,
    feeds: Mapping[str, Array],
    expected: Mapping[str, tuple[Array, Mask]],
    verdict: Verdict,
    nan_bits: bool,
) -> Mismatch | None:
    outputs = {value.name or "": value for value in second.model.graph.outputs}
    try:
        found = second.run(feeds)
    except EngineError as error:
        text = f"does not run: {error}"
        gone = Difference((), "runs", text, 0, 0)
        return Mismatch(name, "", Site(second.model.graph.name or ""), "", "", gone)
    for output, (array, mask) in expected.items():
        verdict.elements += array.size
        verdict.undefined += 0 if mask is None else int(mask.sum())
        found_here = difference(array, found[output][0], mask, nan_bits=nan_bits)
        if found_here is not None:
            earlier = _first_difference(first, second, name, feeds, nan_bits)
            return earlier or _mismatch(name, outputs[output], found_here, first, {}, None)
    verdict.runs.append(name)
    return None


def _first_difference(
    first: Evaluator, second: Evaluator, name: str, feeds: Mapping[str, Array], nan_bits: bool
) -> Mismatch | None:
    """Both run again with every value kept; the first of B, within loops and calls too, that A has and that differs."""
    known: dict[tuple[Path, str], tuple[Array, Mask]] = {}
    first.run(feeds, lambda path, value, array, mask: known.update({(path, value.name or ""): (array, mask)}))
    found: list[Mismatch] = []
    arrays: dict[str, Array] = {key: np.asarray(array) for key, array in feeds.items()}
    outputs = set(second.model.graph.outputs)

    def watch(path: Path, value: onnx_ir.Value, array: Array, mask: Mask) -> None:
        del mask
        arrays[value.name or ""] = array
        theirs, open_there = known.get((path, value.name or ""), (None, None))
        if found or theirs is None:
            return
        pair = (theirs, array) if value in outputs else on_common_ground(theirs, array)
        here = None if pair is None else difference(*pair, open_there, nan_bits=nan_bits)
        if here is not None:
            found.append(_mismatch(name, value, here, first, arrays, array, path))

    second.run(feeds, watch)
    return found[0] if found else None


def _mismatch(
    name: str,
    value: onnx_ir.Value,
    here: Difference,
    first: Evaluator,
    arrays: Mapping[str, Array],
    array: Array | None,
    path: Path = (),
) -> Mismatch:
    node = value.producer()
    theirs = next((n for n in all_nodes(first.model) if any(o.name == value.name for o in n.outputs)), None)
    site = site_of(node) if node is not None else Site(first.model.graph.name or "")
    operands: list[str] = []
    for operand in node.inputs if node is not None and array is not None else ():
        content = arrays.get(operand.name or "") if operand is not None else None
        if operand is not None and content is not None and content.shape == array.shape and here.index:  # type: ignore[union-attr]
            operands.append(f"{operand.name}{list(here.index)} = {element_text(content, here.index)}")
    before, after = ("" if one is None else node_text(one) for one in (theirs, node))
    within = tuple(f"{outer}, turn {turn}" if turn else outer for outer, turn in path)
    return Mismatch(name, value.name or "", site, before, after, here, tuple(operands), within)
