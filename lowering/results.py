"""The results of `optimize` and `convert`, apart from the code that makes them, so that showing one imports neither."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.records import Diagnostic, Refusal, Rewrite

if TYPE_CHECKING:
    import onnx

    from castsmith.lowering.faults import Fault
    from castsmith.verification.verdict import Verdict


@dataclass(frozen=True)
class Result:
    """The optimized model, the rewrites, refusals and diagnostics in order, the verdict of `verify`, the certificate.

    Attributes:
        model: The optimized model.
        rewrites: The changes that were made.
        refusals: The changes that were not made, each with its reason.
        diagnostics: Findings about the model.
        verdict: The result of `verify`, or None.
        certificate: What `castsmith certificate` checks, to be written as JSON; None if the run made none.
    """

    model: onnx_ir.Model
    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    verdict: Verdict | None = None
    certificate: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def proto(self) -> onnx.ModelProto:
        """The model as a new ModelProto with all its weights. Raises ModelError if they exceed 2 GiB."""
        from castsmith.ir.io.saving import whole_proto

        return whole_proto(self.model)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        external_data: str | None = None,
        reference_data: bool = False,
        shard_bytes: int | None = None,
    ) -> None:
        """Save the model to `path`, as `castsmith.save` does with the same options."""
        from castsmith.ir.io.saving import save

        save(self.model, path, external_data=external_data, reference_data=reference_data, shard_bytes=shard_bytes)

    def summary(self) -> str:
        """Return one sentence: the counts of rewrites, refusals and diagnostics, and the outcome of `verify`."""
        counts = {"rewrite": self.rewrites, "refusal": self.refusals, "diagnostic": self.diagnostics}
        text = ", ".join(f"{len(records)} {name}{'' if len(records) == 1 else 's'}" for name, records in counts.items())
        return text if self.verdict is None else f"{text}; verified: {self.verdict.summary()}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _repr_html_(self) -> str:
        from castsmith.ir.notebook import folded, notebook_html
        from castsmith.lowering.net import net_rewrites

        findings = [
            (finding.severity.value, finding.code, str(finding.site), finding.message, finding.help)
            for finding in self.diagnostics
        ]
        net = net_rewrites(self.rewrites, self.model)
        head = ("rule", "place", "before", "after", "reason", "effect")
        steps = f"every rewrite of every pass ({len(self.rewrites)})"
        skipped = [(refusal.rule, str(refusal.site), refusal.reason, refusal.witness) for refusal in self.refusals]
        tables = {
            "findings": (("severity", "code", "place", "message", "help"), findings),
            "rewrites": (head, _rows(net)),
            "skipped": (("rule", "place", "reason", "example value"), skipped),
        }
        shown = notebook_html(self.summary(), tables)
        return shown if net == self.rewrites else shown + folded(steps, (head, _rows(self.rewrites)))


def _rows(rewrites: Iterable[Rewrite]) -> list[tuple[str, ...]]:
    return [
        (rewrite.rule, str(rewrite.site), rewrite.before, rewrite.after, rewrite.reason, rewrite.effect.value)
        for rewrite in rewrites
    ]


@dataclass(frozen=True)
class OutputError:
    """The error of one output.

    Attributes:
        name: The name of the output.
        absolute: The largest difference.
        relative: The largest difference divided by the largest element.
        cosine: The cosine of both results.
        top1: The fraction of rows whose greatest element is the same; None if the output has no rows.
    """

    name: str
    absolute: float
    relative: float
    cosine: float
    top1: float | None


@dataclass(frozen=True)
class Accuracy:
    """The error of a converted model on sets of inputs.

    Attributes:
        sets: The names of the sets of inputs on which both models ran.
        outputs: The worst error of each output.
        leap: The first node at which the error increases suddenly, with the error.
        overflows: The values that became infinite or NaN although they were finite, in order.
        contributions: For each node, the amount by which its error exceeds that of its inputs.
        notes: Further remarks.
        differing: For outputs of integers, bool and text, the number of elements that differ, and of all.
    """

    sets: tuple[str, ...] = ()
    outputs: tuple[OutputError, ...] = ()
    leap: tuple[str, float] | None = None
    overflows: tuple[str, ...] = ()
    contributions: Mapping[str, float] = field(default_factory=dict[str, float])
    notes: tuple[str, ...] = ()
    differing: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    @property
    def worst(self) -> float:
        """The largest relative error of an output; infinite if the result ran on no inputs."""
        return max((output.relative for output in self.outputs), default=0.0) if self.sets else float("inf")


@dataclass(frozen=True, repr=False)
class ConvertResult(Result):
    """The converted model, with the rewrites, refusals and diagnostics.

    Attributes:
        model: The converted model.
        rewrites: The changes that were made.
        refusals: The changes that were not made, each with its reason.
        diagnostics: Findings about the model.
        verdict: None: a conversion changes values, so that the results are measured instead.
        certificate: None, for the same reason.
        precisions: The type that each node computes in, by its name, and the reason.
        regions: The number of the region of each converted node, by its name.
        operators: The operator of each of these nodes.
        error: The measured error; None if it was not measured.
        magnitudes: The largest magnitude of the first result of each node, by the name of the node, where it is known:
            before the conversion, times the factor of a rescaled value.
        attempts: The number of conversions that the search for `max_error` measured.
        kept: The nodes that this search kept in a wider type, by their first results.
        before: The measured error of the model as it was, if it was in float16 already.
        factors: Of a rescaled model the values that are stored times 2 to the minus this power, by their new names.
        faults: The nodes that do harm in float16 on the inputs, and are computed in float for that, or rescaled.
    """

    precisions: Mapping[str, tuple[DataType, str]] = field(default_factory=dict[str, tuple[DataType, str]])
    regions: Mapping[str, int] = field(default_factory=dict[str, int])
    operators: Mapping[str, str] = field(default_factory=dict[str, str])
    error: Accuracy | None = None
    magnitudes: Mapping[str, float] = field(default_factory=dict[str, float])
    attempts: int = 1
    kept: tuple[str, ...] = ()
    before: Accuracy | None = None
    factors: Mapping[str, int] = field(default_factory=dict[str, int])
    faults: tuple[Fault, ...] = ()
