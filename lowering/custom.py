"""lower-custom: operators of other domains become what the lowerings that are registered for them make of them.

A lowering is a function of a node and a builder to write its nodes with; it gives a replacement, a refusal, or nothing
to leave the node as it is. It goes by the operator's name as ONNX text has it, `com.example.ScaledFloat8Cast`, and
comes with the pass or as an entry point of an installed package, in the group `castsmith.lowerings`. What it makes is
then promoted, folded and lowered like the rest. Exact: as far as the lowering says. An operator that a function of the
model defines is left to that.

    y = com.example.ScaledFloat8Cast (x, scale)
becomes, by the lowering of the worked example,
    quotient = Div (x, scale)
    y = Cast <to = float8e4m3fn> (quotient)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import onnx.defs
import onnx_ir

from castsmith.ir.inference import infer_element_types
from castsmith.ir.naming import Namer
from castsmith.ir.passing import RewritePass
from castsmith.ir.records import Refusal, RewriteResult
from castsmith.ir.rewriting import Replacement, all_nodes, run_rules
from castsmith.ir.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.scopes import Scope, drop_unused_domains
from castsmith.ir.targets import Target
from castsmith.ir.text import site_of
from castsmith.lowering.custom_builder import NAME, Lowering, NodeBuilder
from castsmith.lowering.custom_offers import Offers, name_of
from castsmith.numerics.extensions import LOWERINGS, ExtensionError, clause, extensions, loaded
from castsmith.numerics.promotion import PromotionRules


@dataclass(frozen=True)
class LowerCustom(RewritePass):
    """See the module. target: where the model is to run. lowerings: by the operator's name, ahead of the packages'.

    Raises ExtensionError where the lowering of a package raises an error of its own.
    """

    target: Target
    lowerings: Mapping[str, Lowering] = field(default_factory=dict[str, Lowering])

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        chosen = self._chosen({name_of(node) for node in all_nodes(model) if _is_custom(node, model)})
        if not chosen:
            return RewriteResult(model, False)
        lacking = self._import_standard(model)
        offers = Offers(chosen, self.target)
        inference = infer_element_types(model, PromotionRules(promote_unsafe=True), offers.types)
        offers.refuse_several(function for function, called in inference.signatures.items() if len(called) > 1)
        result = run_rules(model, NAME, Namer(model), offers.answers.get)
        drop_unused_domains(model, [name.rpartition(".")[0] for name in chosen])
        for scope in lacking:
            if not any(node.domain in DEFAULT_DOMAINS for node in scope.all_nodes()):
                del scope.opset_imports[""]
        return result

    def _import_standard(self, model: onnx_ir.Model) -> list[Scope]:
        """Let every scope import the standard operators, as what stands in is made of them; those that did not."""
        newest = min(self.target.newest_opset, onnx.defs.onnx_opset_version())
        version = opset_of(model.graph.opset_imports, "") or newest
        scopes: tuple[Scope, ...] = (model.graph, *model.functions.values())
        lacking = [scope for scope in scopes if opset_of(scope.opset_imports, "") is None]
        for scope in lacking:
            scope.opset_imports[""] = version
        return lacking

    def _chosen(self, names: set[str]) -> dict[str, Lowering]:
        found = {name: self.lowerings[name] for name in names & self.lowerings.keys()}
        return found | _from_packages(names - found.keys()) if names else found


def _is_custom(node: onnx_ir.Node, model: onnx_ir.Model) -> bool:
    return node.domain not in DEFAULT_DOMAINS and node.op_identifier() not in model.functions


def _from_packages(names: set[str]) -> dict[str, Lowering]:
    found: dict[str, Lowering] = {}
    for each in extensions(LOWERINGS):
        if each.name in found:
            raise ExtensionError(f"{each} is there twice: uninstall one of the packages that add it.")
        if each.name in names:
            found[each.name] = _guarded(loaded(each, _fit), str(each))
    return found


def _fit(thing: object) -> Lowering:
    if not callable(thing):
        raise TypeError("it is not a function")
    return cast("Lowering", thing)


def _guarded(lowering: Lowering, origin: str) -> Lowering:
    """The lowering of a package, whose errors name the package and the node."""

    def guarded(node: onnx_ir.Node, build: NodeBuilder) -> Replacement | Refusal | None:
        try:
            answer = lowering(node, build)
        except Exception as error:  # whatever a function of others may raise
            raise ExtensionError(f"{origin} failed at {site_of(node)}: {clause(error)}.") from error
        if answer is None or isinstance(answer, Replacement | Refusal):  # pyright: ignore[reportUnnecessaryIsInstance]
            return answer
        raise ExtensionError(
            f"{origin} gave a {type(answer).__name__} for {site_of(node)}: not a replacement or refusal."
        )

    return guarded
