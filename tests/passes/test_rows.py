"""One line of ONNX text, and what a pass makes of it: the nodes, and each record with what it replaces.

The files in `rows` have a line `# pass: NAME{OPTIONS} OPSET` for the models that follow; under each model, indented, is
the result. `python -m tests.passes.test_rows FILE...` writes the results again, to be read. Unlike the golden cases,
which show what a pass is for, these are its limits: settings, budgets at their last byte, refusals beside acceptances.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx.parser
import onnx_ir
import pytest

from castsmith.ir.codes import Rule
from castsmith.ir.io.loading import from_proto
from castsmith.ir.records import Item, Records, RewriteResult
from castsmith.ir.text import node_item, value_item
from castsmith.ir.walks import nodes_of
from castsmith.lowering.registry import make_pass
from castsmith.numerics.errors import CastsmithError
from castsmith.passes.core.rewrite_pass import RewritePass
from castsmith.targets.target import load_target

FOLDER = Path(__file__).with_name("rows")
IMPORTS = '"local" : 1, "com.acme" : 1, "castsmith" : 1'
HEADER = "# pass: "


def results(spec: str, text: str) -> Iterator[str]:
    """Yield the lines that a pass makes of a model."""
    name, _, rest = spec.rpartition(" ")
    opset, _, target = rest.partition("@")
    settings = {"target": load_target(target)} if target else {}
    ir_version = 3 if int(opset) < 9 else 8
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}, {IMPORTS}]> g '
    try:
        model = from_proto(onnx.parser.parse_model(head + text))
        made = make_pass(name, settings)
        result = made(model)
    except CastsmithError as error:
        yield re.sub(r"supported is \d+", "supported is ...", f"error {error}")
        return
    assert isinstance(result, RewriteResult)
    assert isinstance(made, RewritePass)
    safety = {code.code: code.safety for code in made.codes if isinstance(code, Rule)}
    assert all(each.effect in safety[each.rule] for each in result.records.rewrites), "an effect its rule does not have"
    if result.modified:
        yield from after(model)
    yield from told(result.records)


def after(model: onnx_ir.Model) -> Iterator[str]:
    """Yield inputs, outputs, constants and nodes of the graph, then of each function; in a subgraph with its name."""
    for scope in (model.graph, *model.functions.values()):
        if scope is not model.graph:
            yield f"function {scope.name}"
        inputs = ", ".join(value_item(value).code for value in scope.inputs)
        outputs = ", ".join(value_item(value).code for value in scope.outputs)
        yield f"({inputs}) => ({outputs})"
        for graph in (scope, *scope.subgraphs()):
            for value in graph.initializers.values() if isinstance(graph, onnx_ir.Graph) else ():
                array = "" if value.const_value is None else value.const_value.numpy().tolist()
                yield f"{'' if graph is scope else f'{graph.name}: '}{value_item(value).code} = {array}"
        for node in nodes_of(scope):
            graph = node.graph
            place = (
                "" if graph is scope or graph is getattr(scope, "graph", None) else f"{graph.name if graph else ''}: "
            )
            yield f"{place}{f'[{node.name}] ' if node.name else ''}{code(node_item(node))}"


def told(records: Records) -> Iterator[str]:
    for each in records.rewrites:
        saved = "" if each.saved_bytes is None else f" | saves {each.saved_bytes}"
        yield f"{each.rule} | {each.site} | {each.reason}{saved}"
        yield f"    {listed(each.removed)} -> {listed(each.made)}"
    for each in records.refusals:
        yield f"refused {each.rule} | {each.site} | {each.reason} | {each.witness}".removesuffix(" | ")
    for each in records.diagnostics:
        yield f"{each.severity.value} {each.code} | {each.site} | {each.message} | {each.help}"


def listed(items: Sequence[Item]) -> str:
    return "; ".join(map(code, items)) or "nothing"


def code(item: Item) -> str:
    return f"{item.code} {item.comment}".rstrip()


def blocks(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the header that counts and the lines of each model; of other lines, the line alone."""
    spec = ""
    found: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" ") and found:
            found.append(line)
            continue
        if found:
            yield spec, found
        found = []
        if line.startswith(HEADER):
            spec = line.removeprefix(HEADER)
        if line.startswith("("):
            found = [line]
        else:
            yield "", [line]
    if found:
        yield spec, found


def written(path: Path) -> str:
    lines: list[str] = []
    for spec, block in blocks(path):
        lines += block if not spec else [block[0], *(f"    {line}" for line in results(spec, block[0]))]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_gives_what_the_line_below_says(path: Path) -> None:
    for spec, (model, *expected) in blocks(path):
        if spec:
            assert [f"    {line}" for line in results(spec, model)] == expected, f"{spec}: {model}"


if __name__ == "__main__":
    for file in sys.argv[1:]:
        Path(file).write_text(written(Path(file)), encoding="utf-8")
