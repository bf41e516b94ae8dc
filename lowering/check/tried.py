"""Ways out of findings, tried on the model: each call that a hint names is made once, and what it left is looked at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import onnx_ir

from castsmith.ir.records import Diagnostic, Refusal, Site
from castsmith.ir.walks import all_nodes, all_tensors
from castsmith.lowering.check.target import OTHERWISE, TRIES
from castsmith.lowering.check.types import TORCH, UNSAFE
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.target import Target

_MOST_NODES, _MOST_BYTES = 2000, 1 << 25
"""Size of a model on which ways out are tried: on a larger one it takes longer than to check it."""
_CONDITION = re.compile(r",? if .*")

Options = Mapping[str, Any]
Findings = Callable[[onnx_ir.Model], list[Diagnostic]]


def with_tried_hints(
    model: onnx_ir.Model, reported: list[Diagnostic], rules: PromotionRules, target: Target | None, findings: Findings
) -> list[Diagnostic]:
    """Return the findings; where the call that a hint names does not help, the hint says so.

    findings: Returns what is found in a model.
    """
    calls: dict[str, Options] = {
        "optimize ": {"promotion": rules},
        f"`optimize(promotion={TORCH!r})` ": {"promotion": TORCH},
        f"{UNSAFE} ": {"promotion": replace(rules, promote_unsafe=True)},
        "`fold_disputed` ": {"promotion": rules, "fold_disputed": True},
    }
    if target is not None:
        calls[f"`optimize(target={str(target)!r})` "] = {"promotion": rules, "target": target}
    named = [next((call for call in calls if finding.help.startswith(call)), None) for finding in reported]
    if _is_large(model):
        return reported

    others = "" if target is None else f"{TRIES}{str(target)!r})` tries all other ways"

    @cache
    def attempt(call: str) -> _Attempt | str:
        return _attempt(model, calls[call], reported, findings)

    return [
        finding if call is None else replace(finding, help=_hint(finding, call.strip(), attempt(call), others))
        for finding, call in zip(reported, named, strict=True)
    ]


def _is_large(model: onnx_ir.Model) -> bool:
    if sum(1 for _ in all_nodes(model)) > _MOST_NODES:
        return True
    return sum(tensor.nbytes for tensor in all_tensors(model)) > _MOST_BYTES


@dataclass(frozen=True)
class _Attempt:
    """What a call left of the findings, and why."""

    remaining: frozenset[Hashable]
    renamed: frozenset[tuple[str, str]]
    """Codes and operators of findings that there were not before, or not with this name."""
    refusals: Iterable[Refusal]

    def leaves(self, finding: Diagnostic) -> bool:
        return _key(finding) in self.remaining or (finding.code, finding.site.op) in self.renamed

    def reason(self, site: Site) -> str:
        return next((refusal.reason for refusal in self.refusals if _place(refusal.site) == _place(site)), "")


def _attempt(
    model: onnx_ir.Model, options: Options, reported: Iterable[Diagnostic], findings: Findings
) -> _Attempt | str:
    """Return what the call leaves, or the error that it raises."""
    from castsmith.lowering.pipeline import optimize  # which checks what it leaves, and so imports this package

    try:
        result = optimize(model, **options)
        after = findings(result.model)
    except CastsmithError as error:
        return str(error).rstrip(".")
    before = set(map(_key, reported))
    renamed = Counter((finding.code, finding.site.op) for finding in after if _key(finding) not in before)
    return _Attempt(frozenset(map(_key, after)), frozenset(renamed), result.refusals)


def _key(finding: Diagnostic) -> Hashable:
    return finding.code, finding.subject or _place(finding.site)


def _place(site: Site) -> tuple[str, str, str]:
    return site.graph, site.op, site.name


def _hint(finding: Diagnostic, call: str, attempt: _Attempt | str, others: str) -> str:
    """Return the hint, now that the call was tried. others: What else there is to try."""
    if isinstance(attempt, str):
        return f"{call} stops at another error: {attempt}"
    if not attempt.leaves(finding):
        return f"{call} {_CONDITION.sub('', finding.help.removeprefix(call).strip())}"
    otherwise = finding.help.partition(OTHERWISE)[2]
    if otherwise:
        return otherwise
    reason = attempt.reason(finding.site)
    more = f"; {others}" if others else ""
    return f"{call} does not help{f': {reason}' if reason else ''}{more}"
