"""The base class of Castsmith's passes, the records of a run, and provenance.

The pass managers of onnx_ir return a plain PassResult, which has no room for the records of the passes inside;
`recording` collects them anyway.

Provenance is metadata of each new node that names the rule that made it, which viewers such as Netron show:

    castsmith.rule  resolve-promotion
    castsmith.pass  resolve-promote-types
    castsmith.from  main_graph: node_add (Add)

Nodes have metadata from IR version 10 on; models of an earlier version get none.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import ClassVar

import onnx_ir
from onnx_ir import DataType
from onnx_ir.passes import InPlacePass, PassResult

from castsmith.ir.codes import Code, Rule
from castsmith.ir.naming import settle_names
from castsmith.ir.ops.casts import spell_casts
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.records import Effect, Records, Rewrite, RewriteResult, Site, TextItem
from castsmith.ir.validation import nonconformity, require_known_opset
from castsmith.ir.walks import nodes_of
from castsmith.numerics.cast.settings import FIRST_OPSET, NEWEST_OPSET
from castsmith.passes.core.options import check_options
from castsmith.passes.core.session import Session

DROP_UNUSED = Rule(
    "drop-unused",
    "An unused opset import, or an unused function that a pass made, is removed.",
    why="Runtimes may refuse a model that imports an unknown domain.",
    example="- qonnx.custom_op.general 1",
    certified=True,
)


class Recorder:
    """Collects the records of the passes of Castsmith that run inside a block of `listening`."""

    def __init__(self) -> None:
        self.records = Records()

    def begins(self, model: onnx_ir.Model) -> None:
        """Note that a pass is about to run on the model."""

    def ended(self, model: onnx_ir.Model, records: Records) -> None:
        """Note the model that a pass returned, and its records."""
        del model
        self.records.extend(records)


_LISTENERS: ContextVar[tuple[Recorder, ...]] = ContextVar("castsmith_listeners", default=())


class RewritePass(InPlacePass):
    """A pass that changes the model it is given and returns it with the records of what it did.

    Raises OpsetError for a model of an unsupported opset, whose operators may mean anything.

    Attributes:
        codes: What it does and refuses to do, and what it finds, as `castsmith explain` shows it.
    """

    codes: ClassVar[tuple[Code, ...]] = ()

    def __post_init__(self) -> None:
        """Check the options of a pass that is a dataclass. Raises OptionError."""
        check_options(self)

    def requires(self, model: onnx_ir.Model) -> None:
        require_known_opset(model)

    @abstractmethod
    def call(self, model: onnx_ir.Model) -> RewriteResult: ...

    def __call__(self, model_or_result: onnx_ir.Model | PassResult, /) -> RewriteResult:
        model = model_or_result.model if isinstance(model_or_result, PassResult) else model_or_result
        return _completed(type(self).__name__, model, super().__call__)


class SessionPass(RewritePass):
    """A RewritePass that uses what the passes before it found out. Called with a model alone it finds out all itself.

    `optimize` calls `run`; callers without a session call the pass itself, as with every pass of onnx_ir.
    """

    @abstractmethod
    def rewrite(self, session: Session) -> RewriteResult:
        """Change the model of the session."""

    def requires_in(self, session: Session) -> None:
        """Check what the pass requires of the model of a session."""
        self.requires(session.model)

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        return self.rewrite(Session(model))

    def run(self, session: Session) -> RewriteResult:
        """Check what the pass requires, change the model of the session, and leave in it what is still right."""
        result = _completed(type(self).__name__, session.model, lambda _: self._checked(session))
        session.end_of_pass(modified=result.modified)
        return result

    def _checked(self, session: Session) -> RewriteResult:
        self.requires_in(session)
        result = self.rewrite(session)
        self.ensures(result.model)
        return result


def _completed(name: str, model: onnx_ir.Model, work: Callable[[onnx_ir.Model], PassResult]) -> RewriteResult:
    """Run a pass; settle the names in its result, complete its records and tell those who listen."""
    before = _header(model)
    announce(model)
    result = work(model)
    if not isinstance(result, RewriteResult):
        raise TypeError(f"the pass {name} returned a {type(result).__name__}, expected a castsmith.RewriteResult.")
    if result.modified:
        settle_names(result.model)
        _import_standard(result.model)
        spell_casts(result.model)
    elif _header(result.model) != before:
        result.records.rewrites.append(_dropped(name, result.model, before))
        result = replace(result, modified=True)
    tell(result.model, result.records)
    return result


def _import_standard(model: onnx_ir.Model) -> None:
    """Import an opset for operators of the standard where a model had none, and so no import: the oldest they fit."""
    for scope in (model.graph, *model.functions.values()):
        if opset_of(scope.opset_imports, "") is None:
            nodes = [node for node in nodes_of(scope) if node.domain in DEFAULT_DOMAINS]
            fitting = (opset for opset in _OPSETS if not any(nonconformity(node, {"": opset}, {}) for node in nodes))
            if nodes:
                scope.opset_imports[""] = next(fitting, _OPSETS[-1])


_OPSETS = (*(FIRST_OPSET[dtype] for dtype in (DataType.BFLOAT16, DataType.FLOAT8E4M3FN, DataType.INT4)), NEWEST_OPSET)
"""The first opset with bfloat16, with float8, with integers of 4 bits, and the newest."""


def announce(model: onnx_ir.Model) -> None:
    """Tell all who listen, the innermost first, that a pass is about to run on the model."""
    for listener in reversed(_LISTENERS.get()):
        listener.begins(model)


def tell(model: onnx_ir.Model, records: Records) -> None:
    """Tell all who listen what a pass recorded, and the model that it returned."""
    for listener in _LISTENERS.get():
        listener.ended(model, records)


def _header(model: onnx_ir.Model) -> list[str]:
    """Lines for the model's declarations beside its nodes: a pass may drop those that no node needs any more."""
    scopes = (model.graph, *model.functions.values())
    imports = [
        f"{scope.name}: {domain or 'ai.onnx'} {v}" for scope in scopes for domain, v in scope.opset_imports.items()
    ]
    functions = [f"function {'.'.join(filter(None, identifier))}" for identifier in model.functions]
    return [f"IR version {model.ir_version}", *functions, *imports]


def _dropped(class_name: str, model: onnx_ir.Model, before: list[str]) -> Rewrite:
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", class_name).lower()
    after = _header(model)
    old, new = (line for line in before if line not in after), (line for line in after if line not in before)
    reason = "no node needs the declaration any more"
    sides = ([TextItem(text) for text in side] for side in (old, new))
    return Rewrite(name, DROP_UNUSED.code, Site(model.graph.name or ""), *sides, reason=reason)


@contextmanager
def listening(listener: Recorder) -> Generator[None]:
    """Tell `listener` of every pass of Castsmith that the block runs, in whatever pass manager it does.

    Blocks may be nested; each belongs to the thread or task that opened it.
    """
    token = _LISTENERS.set((*_LISTENERS.get(), listener))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


@contextmanager
def recording() -> Generator[Records]:
    """Collect the records of every pass of Castsmith that runs inside the block, in any pass manager.

    One recording may be inside another; each belongs to the thread or task that opened it.
    """
    recorder = Recorder()
    with listening(recorder):
        yield recorder.records


RULE, PASS, FROM = "castsmith.rule", "castsmith.pass", "castsmith.from"
_FIRST_IR_VERSION = 10


def note_provenance(
    model: onnx_ir.Model, nodes: Iterable[onnx_ir.Node], old: set[onnx_ir.Node], rewrites: Iterable[Rewrite]
) -> None:
    """Mark those `nodes` of the model that are not `old` with the rewrite that made them.

    A rewrite is found by the names of the results of a node.
    """
    new = [node for node in nodes if node not in old]
    old.update(new)
    if not new or model.ir_version < _FIRST_IR_VERSION:
        return
    makers: dict[str, Rewrite] = {}
    inherited: dict[str, Rewrite] = {}
    for rewrite in rewrites:
        makers.update((name, rewrite) for item in rewrite.made for name in item.made)
        # A result that is an output of the graph has meanwhile taken the name of what it replaces.
        inherited.update((name, rewrite) for item in rewrite.removed for name in item.made)
    for node in new:
        name = next((value.name for value in node.outputs if value.name), "")
        rewrite = makers.get(name or "") or inherited.get(name or "")
        if rewrite is not None:
            node.metadata_props.update({RULE: rewrite.rule, PASS: rewrite.pass_name, FROM: str(rewrite.site)})


STORE_WEIGHT = Rule(
    "store-weight",
    "A weight is stored in 16 bits, rounded once, and cast back by one Cast, because of --weights-only.",
    why="The file has half the size, and every node computes as before.",
    example=(
        "- float[64,64] w = {...}\n+ float16[64,64] w = {...}\n+ w_float = Cast <to = float> (w)"
        "  # (float16[64,64]) -> float[64,64]"
    ),
    advice="Measure the error: --inputs FILE.npz or --measure; --keep leaves the weights of nodes as they are.",
    safety=(Effect.CONVERTED,),
    silence="Only castsmith convert --weights-only does this.",
)


def is_stored_weight(node: onnx_ir.Node) -> bool:
    """True for the Cast of a weight that is stored in 16 bits on purpose: folded, the file would be larger again."""
    return node.metadata_props.get(RULE) == STORE_WEIGHT.code
