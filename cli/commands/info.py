"""castsmith info: what models hold, and what each target says of them, in a line each."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir
from google.protobuf.message import Message

from castsmith.cli.batch.inputs import means_many, models_of
from castsmith.cli.exit_codes import DONE, worst
from castsmith.cli.messages import complain
from castsmith.cli.models import read_partly, size_of, source_of, tell_flaws
from castsmith.cli.report.savings import measure
from castsmith.cli.streams import require_one_stdin, shown
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import Line, counted, size_text, table_lines
from castsmith.ir.errors import OpsetError
from castsmith.ir.io.wire import messages_of
from castsmith.ir.records import Diagnostic, Flaw, Severity, Site
from castsmith.ir.text import type_text
from castsmith.ir.walks import files_read
from castsmith.lowering.check.malformed import malformed_findings
from castsmith.lowering.check.run import findings_by_target
from castsmith.targets.target import load_target, target_names

_MOST_OPERATORS, _MOST_PORTS = 12, 20


def run(arguments: argparse.Namespace) -> int:
    """Tell of every file; an unreadable file among several does not keep the others from being told of."""
    require_one_stdin(arguments.input)
    if means_many(arguments.input):
        return _run_many(arguments)
    (name,) = arguments.input
    facts = _facts_of_file(name)
    if arguments.json:
        print_json({"model": name, **facts})
    else:
        print_lines(_lines(shown(name), facts))
    return DONE


def _run_many(arguments: argparse.Namespace) -> int:
    entries, codes = list[dict[str, Any]](), list[int]()
    for name, _ in models_of(arguments.input):
        try:
            facts = _facts_of_file(name)
        except Exception as error:  # one file of many
            from castsmith.cli.failures import failure_of

            failure = failure_of(error, {"command": "info", "input": name})
            complain(failure.message)
            codes.append(failure.exit_code)
            entries.append({"model": name, **failure.data()})
            continue
        if not arguments.json:
            print_lines([*([Line(())] if entries else []), *_lines(shown(name), facts)])
        entries.append({"model": name, **facts, "error": None})
    if arguments.json:
        print_json({"models": entries})
    return worst(codes)


def _facts_of_file(name: str) -> dict[str, Any]:
    source, flaws = source_of(name), list[Flaw]()
    model = read_partly(source, flaws)
    tell_flaws(shown(name), flaws)
    targets = {name: _verdict(findings) for name, findings in _findings(model, flaws).items()}
    return {**_facts(model), "file_bytes": size_of(source), "targets": targets}


def _findings(model: onnx_ir.Model | onnx.ModelProto, flaws: Sequence[Flaw]) -> dict[str, list[Diagnostic]]:
    """Return what each target finds; what is wrong with the model, for one that is not sound."""
    if flaws or not isinstance(model, onnx_ir.Model):
        malformed = list(malformed_findings(flaws, model if isinstance(model, onnx_ir.Model) else None))
        return dict.fromkeys(target_names(), malformed)
    try:
        return findings_by_target(model, map(load_target, target_names()))
    except OpsetError as error:
        unsupported = list(malformed_findings([Flaw(Site(model.graph.name or ""), str(error).rstrip("."))], model))
        return dict.fromkeys(target_names(), unsupported)


def _facts(model: onnx_ir.Model | onnx.ModelProto) -> dict[str, Any]:
    """Return what the model holds; of one that cannot be loaded what its file states, without the bytes of tensors."""
    facts: dict[str, Any] = {
        "producer": " ".join(filter(None, (model.producer_name, model.producer_version))) or None,
        "ir_version": model.ir_version,
        "functions": len(model.functions),
    }
    if isinstance(model, onnx_ir.Model):
        sizes, inputs = measure(model), (v for v in model.graph.inputs if v.name not in model.graph.initializers)
        return facts | {
            "opsets": dict(model.opset_imports),
            "inputs": [{"name": value.name or "", "type": type_text(value)} for value in inputs],
            "outputs": [{"name": value.name or "", "type": type_text(value)} for value in model.graph.outputs],
            "nodes": sizes.nodes,
            "operators": sizes.operators,
            "tensor_bytes": sizes.tensor_bytes,
            "tensor_types": sizes.tensor_types,
            "data_files": {str(path): os.stat(path).st_size for path in sorted(files_read(model)) if path.is_file()},
        }
    operators = Counter(node.op_type for node in _nodes(model))
    return facts | {
        "opsets": {entry.domain: entry.version for entry in model.opset_import},
        "inputs": [{"name": value.name, "type": _declared(value)} for value in model.graph.input],
        "outputs": [{"name": value.name, "type": _declared(value)} for value in model.graph.output],
        "nodes": operators.total(),
        "operators": dict(operators.most_common()),
        "tensor_bytes": None,
        "tensor_types": {},
        "data_files": {},
    }


def _nodes(message: Message) -> Iterator[onnx.NodeProto]:
    for node in messages_of(message, onnx.NodeProto):
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute)


def _declared(value: onnx.ValueInfoProto) -> str:
    try:
        return type_text(onnx_ir.serde.deserialize_value_info_proto(value, None))
    except (ValueError, RuntimeError):  # an element type that there is not
        return "?"


def _verdict(findings: Sequence[Diagnostic]) -> dict[str, Any]:
    """Return what a target says: the number of errors and of warnings, and the first of the most severe."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    warnings = [finding for finding in findings if finding.severity is Severity.WARNING]
    first = next(iter([*errors, *warnings]), None)
    return {
        "errors": len(errors),
        "warnings": len(warnings),
        "unknown": sum(finding.code == "target-unknown" for finding in findings),
        "first": None if first is None else first.message,
    }


def _lines(name: str, facts: Mapping[str, Any]) -> Iterator[Line]:
    files = [f"{path} {size_text(size)}" for path, size in facts["data_files"].items()]
    yield Line((("bold", name), ("", f"  {', '.join([size_text(facts['file_bytes']), *files])}")), 2)
    opsets = ", ".join(f"{domain or 'opset'} {version}" for domain, version in facts["opsets"].items())
    types = ", ".join(f"{dtype} {size_text(size)}" for dtype, size in facts["tensor_types"].items())
    size = facts["tensor_bytes"]
    rows = [
        ("producer", facts["producer"] or "not stated"),
        ("version", f"IR {facts['ir_version']}, {opsets or 'no opset'}"),
        *_port_rows("input", facts["inputs"]),
        *_port_rows("output", facts["outputs"]),
        ("nodes", f"{facts['nodes']}: {_operators(facts['operators'])}" if facts["nodes"] else "0"),
        ("functions", str(facts["functions"])),
        ("weights", "unknown" if size is None else f"{size_text(size)}: {types}" if types else "none"),
    ]
    yield from table_lines(rows, "  ")
    yield Line(())
    yield Line((("bold", "targets"), ("", " (castsmith check --target T says more)")))
    yield from table_lines([(target, _said(verdict)) for target, verdict in facts["targets"].items()], "  ")


def _port_rows(title: str, ports: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    yield from ((title, f"{port['name']}: {port['type']}") for port in ports[:_MOST_PORTS])
    if len(ports) > _MOST_PORTS:
        yield title, f"... and {len(ports) - _MOST_PORTS} more"


def _operators(operators: Mapping[str, int]) -> str:
    names = [f"{name} {count}" for name, count in operators.items()]
    hidden_count = len(names) - _MOST_OPERATORS
    return ", ".join(
        [*names[:_MOST_OPERATORS], *([f"{counted(hidden_count, 'other operator')}"] if hidden_count > 0 else [])]
    )


def _said(verdict: Mapping[str, Any]) -> str:
    errors, warnings = verdict["errors"], verdict["warnings"]
    if not errors and not warnings:
        return "no problem known, but the facts are incomplete" if verdict["unknown"] else "can run it"
    numbers = [counted(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number]
    return f"{', '.join(numbers)}: {verdict['first']}"
