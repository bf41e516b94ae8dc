"""lower-custom: Replace operators of other domains by the lowerings registered for them.

A lowering is a function of a node and a builder to write its nodes with; it returns a replacement, a refusal, or None
to leave the node unchanged. It is registered under the operator's name in ONNX text, `com.example.ScaledFloat8Cast`, by
the pass or as an entry point of an installed package, in the group `castsmith.lowerings`. Those of operators of ONNX
Runtime and TensorRT for quantized formats, which a target without them needs, are in `castsmith.lowering.quantized`.
The nodes are then promoted, folded and lowered like the rest. Exact: as far as the lowering says. An operator that a
function of the model defines is not replaced.

    y = com.example.ScaledFloat8Cast (x, scale)
becomes, by the lowering of the worked example,
    quotient = Div (x, scale)
    y = Cast <to = float8e4m3fn> (quotient)

The result types of an operator of another domain are known only from its replacement, and later nodes depend on them:
lowerings are called in the order of the graph during inference, when the types of the node's inputs are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference, infer_element_types
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.records import Records, Refusal, RewriteResult, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import Scope, all_nodes, drop_unused_domains
from castsmith.lowering.node_builder import LOWER_CUSTOM, NAME, Lowering, NodeBuilder
from castsmith.lowering.opset.obstacles import CHANGE_OPSET
from castsmith.numerics.extensions import LOWERINGS, ExtensionError, clause, extensions, loaded
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.rewrite_pass import DROP_UNUSED, SessionPass
from castsmith.passes.core.rewriting import Replacement, detach, replace_nodes
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

_RULES = PromotionRules(promote_unsafe=True)


def name_of(node: onnx_ir.Node) -> str:
    """Return the operator with its domain, as in ONNX text."""
    return f"{node.domain}.{node.op_type}"


@dataclass
class LoweringResults:
    """The results of lowerings, by node.

    Attributes:
        lowerings: Lowerings by operator name, without those that the model defines.
        target: The runtime that the model is for.
        opset: The opset to lower for; 0 for that of each scope.
    """

    lowerings: Mapping[str, Lowering]
    target: Target
    opset: int = 0
    by_node: dict[onnx_ir.Node, Replacement | Refusal] = field(
        default_factory=dict[onnx_ir.Node, "Replacement | Refusal"]
    )
    _builders: dict[onnx_ir.Node, NodeBuilder] = field(default_factory=dict[onnx_ir.Node, NodeBuilder])

    def types(
        self, node: onnx_ir.Node, inputs: Sequence[DataType | None], imports: Mapping[str, int]
    ) -> Sequence[DataType | None] | None:
        """Return the types of the replacement's outputs; the lowering is called again if its input types changed."""
        lowering = self.lowerings.get(name_of(node))
        if lowering is None:
            return None
        self._drop(node)
        for value, dtype in zip(node.inputs, inputs, strict=True):
            if value is not None and dtype not in (None, value.dtype):
                value.type = onnx_ir.TensorType(dtype)
        build = NodeBuilder(node, self.opset or opset_of(imports, "") or 1, self.target)
        self._builders[node] = build
        result = lowering(node, build)
        if result is not None:
            self.by_node[node] = result
        if isinstance(result, Replacement) and result.outputs is not None:
            return [value.dtype for value in result.outputs]
        detach(build.nodes)
        return None

    def refuse_several(self, functions: Iterable[onnx_ir.Function]) -> None:
        """Refuse nodes in functions that are called with operands of several types, as each call needs its own."""
        for node in [node for function in functions for node in function.all_nodes() if node in self.by_node]:
            refusal = self._builders[node].refuse("the enclosing function is called with operands of several types")
            self._drop(node)
            self.by_node[node] = refusal

    def drop_replacements(self) -> set[onnx_ir.Node]:
        """Keep the refusals alone; return the nodes that had replacements."""
        dropped = {node for node, result in self.by_node.items() if isinstance(result, Replacement)}
        for node in dropped:
            self._drop(node)
        return dropped

    def _drop(self, node: onnx_ir.Node) -> None:
        if self.by_node.pop(node, None) is not None:
            detach(self._builders[node].nodes)


@dataclass(frozen=True)
class LowerCustom(SessionPass):
    """Replace operators of other domains by their lowerings.

    Attributes:
        target: The runtime that the model is for.
        lowerings: Lowerings by operator name; they take precedence over those of packages.

    Raises:
        ExtensionError: The lowering of a package raises an error of its own.
    """

    codes = (
        DROP_UNUSED,
        LOWER_CUSTOM,
        CHANGE_OPSET,
    )

    target: Target
    lowerings: Mapping[str, Lowering] = field(default_factory=dict[str, Lowering])

    def rewrite(self, session: Session) -> RewriteResult:
        model = session.model
        chosen = self._chosen({name_of(node) for node in all_nodes(model) if _is_custom(node, model)})
        if not chosen:
            return RewriteResult(model, False)
        lacking = self._import_standard(model)
        records, refused = self._raise_opset(session, chosen)
        lowered = LoweringResults(chosen, self.target)
        inference = _lower_all(lowered, model)
        for node, outcome in lowered.by_node.items():
            if isinstance(outcome, Refusal):
                lowered.by_node[node] = refused.get(node, outcome)
        result = replace_nodes(session, NAME, lowered.by_node.get, types=inference.types)
        records.extend(result.records)
        drop_unused_domains(model, [name.rpartition(".")[0] for name in chosen])
        for scope in lacking:
            if not any(node.domain in DEFAULT_DOMAINS for node in scope.all_nodes()):
                del scope.opset_imports[""]
        return RewriteResult(model, bool(records.rewrites), records)

    def _raise_opset(
        self, session: Session, chosen: Mapping[str, Lowering]
    ) -> tuple[Records, Mapping[onnx_ir.Node, Replacement | Refusal]]:
        """Move the model to the opset that replacements need, if no other node changes its meaning.

        That is the oldest one at which all nodes are replaced that are replaced at the newest one that any lowering
        asks for; none if no node needs it.

        Returns:
            What was done, and the nodes that are refused at the newest one, whose reason is not the opset.
        """
        from castsmith.lowering.opset.obstacles import move_to_opset, obstacle_to_opset
        from castsmith.lowering.quantized.tables import LOWERINGS

        records, model = Records(), session.model
        now = opset_of(model.graph.opset_imports, "") or 0
        tabled = [LOWERINGS[name] for name in chosen.keys() & LOWERINGS.keys() if chosen[name] == LOWERINGS[name].lower]
        levels = sorted({lowering.opset for lowering in tabled if lowering.opset > now})
        if not levels:
            return records, {}
        trials = {level: LoweringResults(chosen, self.target, level) for level in (now, *levels)}
        replaced = {level: _trial(lowered, model) for level, lowered in trials.items()}
        to = next(level for level in trials if replaced[level] >= replaced[levels[-1]])
        refused = trials[levels[-1]].by_node
        if to == now:
            return records, refused
        site, obstacle = Site(model.graph.name or ""), obstacle_to_opset(model, to, session.inference(_RULES).types)
        if obstacle is not None:
            reason = f"the replacement needs opset {to}, but {obstacle.site}: {obstacle.reason}"
            records.refusals.append(Refusal(NAME, CHANGE_OPSET.code, site, reason))
            return records, refused
        text = "the replacement uses operators that this opset introduces; every other node keeps its meaning"
        records.rewrites.append(move_to_opset(model, to, NAME, text))
        session.changed()
        return records, refused

    def _import_standard(self, model: onnx_ir.Model) -> list[Scope]:
        """Import the standard operators, of which replacements consist, in every scope that lacks them.

        Returns:
            The scopes that lacked them.
        """
        newest = min(self.target.complete_opset, onnx.defs.onnx_opset_version())
        version = opset_of(model.graph.opset_imports, "") or newest
        scopes: tuple[Scope, ...] = (model.graph, *model.functions.values())
        lacking = [scope for scope in scopes if opset_of(scope.opset_imports, "") is None]
        for scope in lacking:
            scope.opset_imports[""] = version
        return lacking

    def _chosen(self, names: set[str]) -> dict[str, Lowering]:
        """Return the lowerings of these operators: of the pass, of packages, of vendors that the target lacks."""
        if not names:
            return {}
        from castsmith.lowering.quantized.tables import LOWERINGS

        lowerings = {name: self.lowerings[name] for name in names & self.lowerings.keys()}
        lowerings |= _from_packages(names - lowerings.keys())
        of_vendors = sorted((names - lowerings.keys()) & LOWERINGS.keys())
        foreign = [name for name in of_vendors if name.rpartition(".")[0] not in self.target.domains]
        return {**{name: cast("Lowering", LOWERINGS[name].lower) for name in foreign}, **lowerings}


def _lower_all(lowered: LoweringResults, model: onnx_ir.Model) -> Inference:
    """Ask the lowerings for all nodes, and return the types that follow."""
    inference = infer_element_types(model, _RULES, lowered.types)
    lowered.refuse_several(function for function, called in inference.signatures.items() if len(called) > 1)
    return inference


def _trial(lowered: LoweringResults, model: onnx_ir.Model) -> set[onnx_ir.Node]:
    """Return the nodes that would be replaced, and discard what would replace them."""
    _lower_all(lowered, model)
    return lowered.drop_replacements()


def _is_custom(node: onnx_ir.Node, model: onnx_ir.Model) -> bool:
    return node.domain not in DEFAULT_DOMAINS and node.op_identifier() not in model.functions


def _from_packages(names: set[str]) -> dict[str, Lowering]:
    lowerings: dict[str, Lowering] = {}
    for extension in extensions(LOWERINGS):
        if extension.name in lowerings:
            raise ExtensionError(f"{extension} is added twice: uninstall one of the packages that add it.")
        if extension.name in names:
            lowerings[extension.name] = _guarded(loaded(extension, _fit), str(extension))
    return lowerings


def _fit(registered: object) -> Lowering:
    if not callable(registered):
        raise TypeError("it is not a function")
    return cast("Lowering", registered)


def _guarded(lowering: Lowering, origin: str) -> Lowering:
    """Return the lowering of a package, with errors that name the package and the node."""

    def guarded(node: onnx_ir.Node, build: NodeBuilder) -> Replacement | Refusal | None:
        try:
            result = lowering(node, build)
        except Exception as error:  # a foreign function may raise anything
            raise ExtensionError(f"{origin} failed at {site_of(node)}: {clause(error)}.") from error
        if result is None or isinstance(result, Replacement | Refusal):  # pyright: ignore[reportUnnecessaryIsInstance]
            return result
        raise ExtensionError(
            f"{origin} returned a {type(result).__name__} for {site_of(node)}; expected a replacement, refusal or None."
        )

    return guarded
