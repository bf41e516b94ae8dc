"""Model Explorer of AI Edge: bounds, precisions and rewrites over the graph of a model, and the differences of two.

    castsmith diff before.onnx after.onnx --format json > diff.castsmith.json
    model-explorer diff.castsmith.json --extensions=castsmith.integrations.model_explorer

Model Explorer imports the module `main` of an extension, and finds both classes in it.
"""

# The tool is not installed where types are checked: what it leaves unknown is not our error.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright takes the folder of this module for the tool of that name.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx_ir
from model_explorer import config_editor, graph_builder, node_data_builder, node_data_provider
from model_explorer.adapter import Adapter, AdapterMetadata

import castsmith
from castsmith.ir.errors import ModelError
from castsmith.ir.records import NodeItem
from castsmith.ir.text import node_text, type_text
from castsmith.ir.walks import subgraphs_of
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.types import type_name
from castsmith.passes.precision.constants import limits
from castsmith.passes.precision.patterns import paths_of
from castsmith.passes.precision.run import parse_precision

_GREEN, _YELLOW, _RED, _BLUE = "#c8e6c9", "#fff3c4", "#ffcdd2", "#bbdefb"


class DiffAdapter(Adapter):
    """Show the two models of `castsmith diff A B --format json`, with what was removed, added and changed in colour."""

    metadata = AdapterMetadata(
        id="castsmith_diff",
        name="Castsmith diff",
        description="The differences of two ONNX models",
        source_repo="https://github.com/castsmith/castsmith",
        fileExts=["json"],
    )

    def convert(self, model_path: str, settings: Mapping[str, Any]) -> Any:
        del settings
        before, after = _models_of(Path(model_path))
        removed, added = _marks(castsmith.diff(before, after))
        sides = (("before", before, removed), ("after", after, added))
        graphs = [graph for side, model, marks in sides for graph in _graphs(side, model, marks)]
        return {"graphs": graphs}


class Provider(node_data_provider.NodeDataProvider):
    """Lay what Castsmith says of nodes over the graph of an ONNX model."""

    metadata = [  # noqa: RUF012 - Model Explorer reads the attribute of the class
        node_data_provider.NodeDataProviderMetadata(
            id=f"castsmith_{name}",
            name=f"Castsmith {name}",
            description=description,
            filter=node_data_provider.NodeDataProviderFilter(modelFileExts=["onnx"]),
        )
        for name, description in (
            ("bounds", "The largest absolute value of each node, and whether float16 holds it"),
            ("precision", "The type that each node computes in after a conversion"),
            ("rewrites", "What castsmith.optimize changes at each node"),
        )
    ]

    def get_config_editors(self, provider_id: str) -> Any:
        text = config_editor.TextInputConfigEditor
        ranges = text(id="ranges", label="Ranges of inputs", description="x=0:1, y=-1:1")
        to = text(id="to", label="Precision", defaultValue="float16")
        target = text(id="target", label="Target", description="As `castsmith targets` lists them")
        editors = {"bounds": [ranges, to], "precision": [ranges, to, target], "rewrites": [target]}
        return node_data_provider.GetConfigEditorsResult(editors[provider_id.removeprefix("castsmith_")])

    def run(
        self, provider_id: str, model_path: str, graph_id: str, config_values: Mapping[str, Any], graph: Any
    ) -> Any:
        del graph_id
        kind = provider_id.removeprefix("castsmith_")
        try:
            facts = _FACTS[kind](castsmith.load(model_path), config_values)
        except CastsmithError as error:
            return node_data_provider.NodeDataProviderResult(error=str(error))
        results = {
            key: node_data_builder.NodeDataResult(value=value, bgColor=colour)
            for key, names in _keys(graph, facts)
            for value, colour in [next(facts[name] for name in names if name in facts)]
        }
        data = node_data_builder.GraphNodeData(results=results, name=f"Castsmith {kind}")
        return node_data_provider.NodeDataProviderResult(result=data)


Facts = dict[str, tuple[Any, str]]
"""The value and the colour of a node, by the names of its results."""


def _bounds(model: onnx_ir.Model, settings: Mapping[str, Any]) -> Facts:
    edges = limits(parse_precision(settings.get("to") or "float16"))
    facts = Facts()
    for name, bound in castsmith.bounds(model, ranges=_ranges(settings)).items():
        if bound.how != "unknown" and bound.magnitude < float("inf"):
            fits = (
                _RED if bound.magnitude >= edges.overflow else _BLUE if 0 < bound.magnitude < edges.normal else _GREEN
            )
            facts[name] = bound.magnitude, fits
    return facts


def _precisions(model: onnx_ir.Model, settings: Mapping[str, Any]) -> Facts:
    results = {node.name or node.outputs[0].name: [value.name or "" for value in node.outputs] for node in model.graph}
    converted = castsmith.convert(
        model,
        to=settings.get("to") or "float16",
        target=settings.get("target") or None,
        ranges=_ranges(settings) or None,
    )
    wide = max(dtype.itemsize for dtype, _ in converted.precisions.values()) if converted.precisions else 0
    return {
        result: (type_name(dtype), _YELLOW if dtype.itemsize == wide else _GREEN)
        for name, (dtype, _) in converted.precisions.items()
        for result in results.get(name, [])
    }


def _rewrites(model: onnx_ir.Model, settings: Mapping[str, Any]) -> Facts:
    result = castsmith.optimize(model, target=settings.get("target") or None, promote_unsafe=True)
    rules: dict[str, list[str]] = defaultdict(list)
    for rewrite in result.rewrites:
        for item in rewrite.removed:
            for name in item.made if isinstance(item, NodeItem) else ():
                rules[name].append(rewrite.rule)
    return {name: (", ".join(dict.fromkeys(codes)), _YELLOW) for name, codes in rules.items()}


_FACTS: dict[str, Callable[[onnx_ir.Model, Mapping[str, Any]], Facts]] = {
    "bounds": _bounds,
    "precision": _precisions,
    "rewrites": _rewrites,
}


def _ranges(settings: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Read `x=0:1, y=-1:1`."""
    ranges = dict[str, tuple[float, float]]()
    for part in filter(None, map(str.strip, (settings.get("ranges") or "").split(","))):
        name, _, ends = part.rpartition("=")
        low, _, high = ends.partition(":")
        try:
            ranges[name] = float(low), float(high)
        except ValueError:
            raise castsmith.OptionError(f"the range {part!r} is not understood; write NAME=LOW:HIGH.") from None
    return ranges


def _keys(graph: Any, facts: Facts) -> Iterator[tuple[str, list[str]]]:
    """Yield the key of each node in the viewer, and the names of its results of which something is known."""
    if graph is None:
        yield from ((name, [name]) for name in facts)
        return
    for node in graph.nodes:
        tags = [attribute.value for item in node.outputsMetadata for attribute in item.attrs if attribute.key == _TAG]
        if names := [name for name in tags if name in facts]:
            yield node.id, names


_TAG = "__tensor_tag"
"""The key under which adapters store the name of a value."""


def _models_of(path: Path) -> tuple[onnx_ir.Model, onnx_ir.Model]:
    """Load the two models that the output of `castsmith diff --format json` names."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        files = [path.parent / data[side] for side in ("a", "b")]
    except (ValueError, KeyError, TypeError):
        message = f"{path}: not the output of `castsmith diff A B --format json`; choose another adapter for this file."
        raise ModelError(message) from None
    before, after = map(castsmith.load, files)
    return before, after


Marks = dict[str, tuple[str, str]]
"""The colour of a changed node and what changed, by the name of its first result."""


def _marks(differences: castsmith.ModelDiff) -> tuple[Marks, Marks]:
    removed, added = Marks(), Marks()
    for change in differences.changes:
        gone, new = (item if isinstance(item, NodeItem) else None for item in (change.removed, change.made))
        place = change.site.output if change.site is not None else ""
        text = f"{change.kind}: {change.before} -> {change.after}".replace(":  ->", ":").removesuffix(" -> ")
        for item, marks in ((gone, removed), (new, added)):
            name = item.made[0] if item is not None and item.made else place
            alone = (gone is None) != (new is None) and item is not None
            if name:
                marks[name] = (_RED if marks is removed else _GREEN) if alone else _YELLOW, text
    return removed, added


def _graphs(side: str, model: onnx_ir.Model, marks: Marks) -> Iterator[Any]:
    scopes = (model.graph, *model.functions.values())
    for scope in (*scopes, *(inner for outer in scopes for inner in subgraphs_of(outer))):
        yield graph_builder.Graph(f"{side} {scope.name or 'graph'}", list(_nodes(scope, marks)))


def _nodes(scope: onnx_ir.Graph | onnx_ir.Function, marks: Marks) -> Iterator[Any]:
    for value in scope.inputs:
        yield _node(value.name or "", "Input", [], [value])
    for index, node in enumerate(scope):
        identity = node.outputs[0].name if node.outputs else ""
        colour, change = marks.get(identity or "", ("", ""))
        drawn = _node(identity or f"node {index}", node.op_type, node.inputs, node.outputs)
        drawn.namespace = "/".join(next(paths_of(node), ()))
        drawn.attrs = [
            graph_builder.KeyValue(key, text) for key, text in (("node", node_text(node)), ("change", change)) if text
        ]
        drawn.style = graph_builder.GraphNodeStyle(backgroundColor=colour) if colour else None
        yield drawn
    for value in scope.outputs:
        yield _node(f"output {value.name}", "Output", [value], [])


def _node(identity: str, label: str, inputs: Any, outputs: Any) -> Any:
    edges = [
        graph_builder.IncomingEdge(
            producer.outputs[0].name or "" if (producer := value.producer()) else value.name or ""
        )
        for value in inputs
        if value is not None and not value.is_initializer()
    ]
    results = [
        graph_builder.MetadataItem(
            str(index),
            [graph_builder.KeyValue(_TAG, value.name or ""), graph_builder.KeyValue("type", type_text(value))],
        )
        for index, value in enumerate(outputs)
    ]
    return graph_builder.GraphNode(identity, label, incomingEdges=edges, outputsMetadata=results)
