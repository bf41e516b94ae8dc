"""The text that optimize and convert print: the requested rewrites and refusals, then counts and sizes.

convert also prints the nodes by their precision, the reasons for nodes that are not converted, and the measured error.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from castsmith.cli.report.fit import OUTPUT
from castsmith.cli.report.savings import Amount, Measure, ModelSizes, RuleKey
from castsmith.cli.streams import STDOUT, STREAM, shown
from castsmith.cli.text.accuracy import error_lines
from castsmith.cli.text.fit import plan_lines
from castsmith.cli.text.rewrites import KEPT_NODE, refusal_lines, rewrite_lines, words_of
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import Line, columns, counted, size_text
from castsmith.ir.walks import all_nodes, all_values
from castsmith.lowering.fit.results import FitResult
from castsmith.lowering.net import net_rewrites
from castsmith.lowering.results import ConvertResult, Result
from castsmith.numerics.types import type_name

if TYPE_CHECKING:
    from castsmith.lowering.faults import Fault

_MOST_REASONS, _MOST_ROWS = 6, 8


def print_result(arguments: argparse.Namespace, result: Result, sizes: ModelSizes) -> None:
    """Print the requested parts, and the summary last, where it is visible."""
    print_lines(_lines(arguments, result, sizes))


def _lines(arguments: argparse.Namespace, result: Result, sizes: ModelSizes) -> Iterator[Line]:
    if arguments.diff:
        full = arguments.diff == "full"
        yield from rewrite_lines(result.rewrites if full else net_rewrites(result.rewrites, result.model), full=full)
    if arguments.explain:
        if arguments.diff and result.rewrites and result.refusals:
            yield Line(())
        yield from refusal_lines(result.refusals, _type_kept(result), full=arguments.diff == "full")
    if not arguments.quiet and ((arguments.diff and result.rewrites) or (arguments.explain and result.refusals)):
        yield Line(())
    if arguments.quiet:
        return
    for text in _summary(arguments, result, sizes):
        yield Line((("", text),), 4)


def _summary(arguments: argparse.Namespace, result: Result, sizes: ModelSizes) -> Iterator[str]:
    """Return counts by pass and rule, then the size of the model before and after."""
    output = STDOUT if arguments.output == STREAM else arguments.output
    note = " (--dry-run: nothing is written)" if arguments.dry_run else ""
    place = f" -> {output}" if "output" in arguments.given else ""
    yield f"{shown(arguments.input)}{place}{note}"
    if not isinstance(result, FitResult):  # whose plan says what was done
        yield from _done(result, sizes)
    yield from columns([("", "before", "after"), *_changes(sizes.before, sizes.after)])
    if isinstance(result, ConvertResult):
        yield from _conversion(result)
    if isinstance(result, FitResult):
        yield from plan_lines(result, arguments.input, arguments.output if "output" in arguments.given else OUTPUT)
    kept_records = [record for record in result.refusals if record.rule == KEPT_NODE]
    how = "" if arguments.explain else " (--explain shows why)"
    if kept_records:
        yield f"  {counted(len(kept_records), 'node')} kept in {_type_kept(result)}{how}"
    if len(kept_records) < len(result.refusals):
        yield f"  {counted(len(result.refusals) - len(kept_records), 'change')} skipped{how}"
    if result.verdict is not None:
        from castsmith.cli.text.verify import as_command
        from castsmith.verification.verdict import evidence_of

        verdict = as_command(result.verdict)
        yield f"  verified: {''.join(evidence_of(verdict))}"
        yield from (f"    {text}" for text in (*verdict.unsure, *verdict.accepted))


def _done(result: Result, sizes: ModelSizes) -> Iterator[str]:
    """Yield the table of rewrites by pass and rule, without columns that are empty."""
    if not result.rewrites:
        yield "  nothing to change"
        return
    rows = [("pass", "rule", "count", "casts", "bytes"), *_rows(sizes.rules)]
    filled = [index for index in range(len(rows[0])) if any(row[index] for row in rows[1:])]
    yield from columns([row[index] for index in filled] for row in rows)


def _changes(before: Measure, after: Measure) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each count and size that differs, and always one for all nodes and for all tensors."""
    yield "nodes", str(before.nodes), str(after.nodes)
    yield from _differing(before.operators, after.operators, "operators", str)
    yield "tensors", size_text(before.tensor_bytes), size_text(after.tensor_bytes)
    yield from _differing(before.tensor_types, after.tensor_types, "types", size_text)
    if after.file_bytes is not None:
        yield "file", size_text(before.file_bytes or 0), size_text(after.file_bytes)


def _differing(
    before: Mapping[str, int], after: Mapping[str, int], noun: str, as_text: Callable[[int], str]
) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each name whose number differs, casts and the largest differences first."""
    numbers = {name: (before.get(name, 0), after.get(name, 0)) for name in {**before, **after}}
    changed = {name: pair for name, pair in numbers.items() if pair[0] != pair[1]}
    names = sorted(changed, key=lambda name: (name != "Cast", -abs(changed[name][0] - changed[name][1])))
    for name in names[:_MOST_ROWS]:
        yield f"  {name}", as_text(changed[name][0]), as_text(changed[name][1])
    hidden = [changed[name] for name in names[_MOST_ROWS:]]
    if hidden:
        first, last = (sum(pair[side] for pair in hidden) for side in (0, 1))
        yield f"  {len(hidden)} other {noun}", as_text(first), as_text(last)


def _rows(rules: Mapping[RuleKey, Amount]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each rule: the casts that it adds and removes, and the growth of constants."""
    for (name, rule), amount in rules.items():
        casts = " ".join(
            f"{sign}{number}" for sign, number in (("+", amount.casts_added), ("-", amount.casts_removed)) if number
        )
        change = amount.bytes_added - amount.bytes_removed
        size = f"{'+' if change > 0 else '-'}{size_text(abs(change))}" if change else ""
        yield name, rule or "(other changes)", str(amount.count or ""), casts, size


def _conversion(result: ConvertResult) -> Iterator[str]:
    """Yield the nodes by precision, the most frequent reasons to leave one, and the error of each output."""
    types = Counter(type_name(dtype) for dtype, _ in result.precisions.values())
    regions = len(set(result.regions.values()))
    shares = ", ".join(f"{count} {name}" for name, count in types.most_common())
    yield f"  precision of {counted(len(result.precisions), 'node')}: {shares or 'none'}; {counted(regions, 'region')}"
    yield from _kept_lines(result)
    yield from fault_lines(result.faults, "rescaled" if result.factors else "in float")
    if result.factors:
        powers = Counter(f"2^{-power}" for power in result.factors.values())
        shares = ", ".join(f"{count} by {power}" for power, count in powers.most_common(_MOST_ROWS))
        yield f"  {counted(len(result.factors), 'value')} scaled: {shares}"
    if result.faults and result.before is not None:
        yield f"  error before: {result.before.worst:.3g}"
    if result.error is None:
        yield "  error: not measured (--inputs FILE.npz or --measure)"
    else:
        yield from error_lines(result.error)
    if result.attempts > 1:
        wider = counted(len(result.kept), "node")
        yield f"  search: {result.attempts} conversions measured, {wider} kept in a wider type for the error"


def fault_lines(faults: Sequence[Fault], cure: str) -> Iterator[str]:
    """Yield the nodes that float16 does not do, those first at which a fault begins."""
    if faults:
        firsts = [fault for fault in faults if fault.kind != "operand"] or faults
        yield f"  {counted(len(faults), 'node')} {cure}, because float16 goes wrong there on these inputs:"
        yield from (f"    {fault.place}: {fault.reason}" for fault in firsts[:_MOST_ROWS])
        if len(firsts) > _MOST_ROWS:
            yield f"    {len(firsts) - _MOST_ROWS} more (--json has all)"
        if len(firsts) < len(faults):
            yield f"    and {counted(len(faults) - len(firsts), 'node')} downstream"


def _type_kept(result: Result) -> str:
    """Return the type in which nodes are kept, if it is one."""
    if not isinstance(result, ConvertResult):
        return "a wider type"
    types = {type_name(dtype) for name, (dtype, _) in result.precisions.items() if name not in result.regions}
    return types.pop() if len(types) == 1 else "a wider type"


def _kept_lines(result: ConvertResult) -> Iterator[str]:
    """Yield the reasons to keep nodes in their type, those alike together, and the number of further ones."""
    names = {value.name for value in all_values(result.model)} | {node.name for node in all_nodes(result.model)}
    alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for name, (dtype, reason) in result.precisions.items():
        if name not in result.regions:
            kind, dtype_name = _kind(reason), type_name(dtype)
            key = (dtype_name, *(word for word in words_of(kind) if word not in names))
            alike.setdefault(key, []).append((dtype_name, kind))
    groups = sorted(alike.values(), key=len, reverse=True)
    for group in groups[:_MOST_REASONS]:
        dtype_name, kind = group[0]
        variants = sum(reason != kind for _, reason in group)
        yield f"    {len(group)} kept in {dtype_name}: {kind}{f', and {variants} like it' if variants else ''}"
    hidden = groups[_MOST_REASONS:]
    if hidden:
        yield f"    {sum(map(len, hidden))} kept for {counted(len(hidden), 'other reason')} (--explain lists all)"


def _kind(reason: str) -> str:
    """The reason without what differs from node to node."""
    return reason.partition(" stays in a wider type by default: ")[2] or reason
