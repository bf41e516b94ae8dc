"""State is passed and not hidden: nothing that one call leaves behind changes what another one gives."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import onnx_ir
import pytest
from onnx_ir.passes import InPlacePass, PassResult

import castsmith
from castsmith.ir.text import node_text
from tests.examples.test_composition import MODELS
from tests.graphs.golden import read
from tests.house import ROOT, trees
from tests.sampling import sampled

GOLDEN = sorted((ROOT / "tests" / "passes" / "golden").glob("*/*.onnxtxt"))
UNSAFE = castsmith.PromotionRules(promote_unsafe=True)


def test_no_module_keeps_what_a_call_found() -> None:
    """No `global`, no table of a module that a function fills, no key by `id`, which another object can have later, no
    cache of what can change; `recording` alone has a context variable, which its block sets and resets."""
    assert [f"{name}, {text}" for name, tree in trees().items() for text in _kept(tree, name)] == []


def _kept(tree: ast.Module, module: str) -> Iterator[str]:
    tables = {name.id for statement in tree.body for name in _targets(statement)}
    every = list(ast.walk(tree))
    for function in (node for node in every if isinstance(node, ast.FunctionDef | ast.Lambda)):
        own, changes = set[str](), set[str]()
        for node in ast.walk(function):
            if isinstance(node, ast.arg):
                own.add(node.arg)
            elif isinstance(node, ast.Name):
                own |= {node.id} if isinstance(node.ctx, ast.Store) else set()
            elif isinstance(node, ast.Global):
                yield f"line {node.lineno}: global {', '.join(node.names)}"
            elif isinstance(node, ast.Subscript | ast.Call):
                changes.add(_changed(node))
        yield from (f"line {function.lineno}: {name} is changed" for name in sorted(changes & tables - own))
        if isinstance(function, ast.FunctionDef) and any(
            "cache" in ast.unparse(each) for each in function.decorator_list
        ):
            yield from (f"line {function.lineno}: a cache of {text}" for text in _mutable(function))
    for node in every:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "id"
            and module not in _HOLDS
        ):
            yield f"line {node.lineno}: a key by id"
        if isinstance(node, ast.Name) and node.id == "ContextVar" and not module.endswith("/rewrite_pass.py"):
            yield f"line {node.lineno}: a context variable"


def test_conditions_raise_and_are_not_asserted() -> None:
    """`python -O` drops asserts: one may tell the type checker of a None or a kind, and nothing else."""
    asserted = (
        (name, node.lineno, ast.unparse(node.test))
        for name, tree in trees("assert ").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    )
    kinds = (" is not None", "isinstance(")
    assert [each for each in asserted if not (each[2].endswith(kinds[0]) or each[2].startswith(kinds[1]))] == []


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    global t",
        "t = {}\ndef f(a):\n    t[a] = 1",
        "t = []\ndef f(a):\n    t.append(a)",
        "t = {}\ndef f(a):\n    return g(lambda: t.pop(a))",
        "@cache\ndef f(a: onnx_ir.Model):\n    return 1",
        "x = id(y)",
        "x = ContextVar('x')",
    ],
)
def test_what_keeps_state_is_found(source: str) -> None:
    assert [*_kept(ast.parse(source), "ir/some.py")]


_HOLDS = ("verification/checker.py", "verification/prove/proof.py")
"""Keep each message whose `id` is a key beside it; messages of protobuf cannot be keys themselves."""
_CHANGING = {"add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
_MUTABLE = re.compile(r"\b(list|dict|Mapping|Array|Model|Graph|Node|Value|Sequence|Tensor|Function)\b")


def _targets(statement: ast.stmt) -> Iterator[ast.Name]:
    """The names that a statement of a module assigns."""
    given = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    yield from (name for name in given if isinstance(name, ast.Name))


def _changed(node: ast.AST) -> str:
    """The name whose content the node changes; empty if it changes none."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        return node.value.id if isinstance(node.value, ast.Name) else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
        return node.func.value.id if isinstance(node.func.value, ast.Name) else ""
    return ""


def _mutable(function: ast.FunctionDef) -> list[str]:
    """The annotations of the parameters that name something that can change."""
    texts = [ast.unparse(each.annotation) for each in function.args.args if each.annotation is not None]
    return [text for text in texts if _MUTABLE.search(text)]


def outcome(model: onnx.ModelProto, **options: Any) -> tuple[bytes, str]:
    """Return the result of `optimize` for the model, and its records."""
    result = castsmith.optimize(model, promotion=UNSAFE, **options)
    records = repr((result.rewrites, result.refusals, result.diagnostics, result.verdict and result.verdict.summary()))
    return onnx_ir.to_proto(result.model).SerializeToString(deterministic=True), records


Work = tuple[onnx.ModelProto, dict[str, Any]]


def outcome_of(work: Work) -> tuple[bytes, str]:
    return outcome(work[0], **work[1])


def in_threads(works: list[Work]) -> list[tuple[bytes, str]]:
    """The outcomes of works that run at the same time, and change places as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(outcome_of, works))
    finally:
        sys.setswitchinterval(before)


def test_models_in_threads_come_out_as_one_after_the_other() -> None:
    sources = [read(path).source for path in sampled("golden cases in threads", GOLDEN, len(GOLDEN) // 4)] + [
        text for name, text in MODELS.items() if name != "custom"
    ]
    models = [onnx_ir.to_proto(onnx_ir.from_onnx_text(source)) for source in sources]
    options: list[dict[str, Any]] = [{"target": "onnxruntime-android"}, {"provenance": True}]
    works = [(model, given) for model in models for given in options]
    assert in_threads(works) == list(map(outcome_of, works))


def test_engines_in_threads_answer_the_thread_that_asks() -> None:
    """Each thread runs other models in the one process of engines."""
    texts = [
        f"""<ir_version: 10, opset_import: ["" : 21]> g (float16[{size}] x) => (float16[{size}] y) {{
            a = Cast <to = 1> (x) b = {op} (a) c = Cast <to = 1> (b) y = Cast <to = 10> (c) }}"""
        for size, op in ((3, "Relu"), (5, "Neg"), (7, "Abs"), (9, "Sign"))
    ]
    works = [(onnx.parser.parse_model(text), {"verify": "reference"}) for text in texts * 2]
    found = in_threads(works)
    assert found[:4] == found[4:] == list(map(outcome_of, works[:4]))


class Look(InPlacePass):
    """A pass from elsewhere that writes every node down."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def call(self, model: onnx_ir.Model) -> PassResult:
        self.seen += [node_text(node) for node in model.graph]
        return PassResult(model, False)


def test_the_text_of_a_node_is_the_same_whenever_it_is_written() -> None:
    """Also while passes know the types of values that declare none."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float16[3] x, float[3] v) => (float[3] y) {
        a = Cast <to = 1> (x) b = Neg (a) c = Add (b, v) y = Relu (c) }"""
    look, during = Look(), list[str]()
    model, other = onnx_ir.from_onnx_text(text), onnx_ir.from_onnx_text(text)
    for value in (node.outputs[0] for each in (model, other) for node in list(each.graph)[:-1]):
        value.type = None
    expected = [node_text(node) for node in other.graph]
    assert "c = Add (b, v)  # (?, float[3]) -> ?" in [line.strip() for line in expected]

    def note(_: str) -> None:
        during.extend(node_text(node) for each in (model, other) for node in each.graph)

    passes = ["insert-promote-types", look, "fold-constants", "simplify-casts", look, "place-casts", look]
    castsmith.optimize(model, passes=passes, progress=note, in_place=True)
    assert during == expected * (2 * len(passes))
    assert look.seen == expected * 3
    assert [node_text(node) for node in other.graph] == expected


def test_a_promotion_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    rows = {"name": "mine", "promote_unsafe": True, "above": {"i32": ["f32"], "f32": ["f64"], "f64": []}}
    file.write_text(json.dumps(rows))
    rules, operands = castsmith.PromotionRules.preset(str(file)), [("int32", 1), ("float", 1)]
    assert castsmith.common_type(operands, rules) is onnx_ir.DataType.FLOAT
    file.write_text(json.dumps({**rows, "above": {"i32": ["f64"], "f32": ["f64"], "f64": []}}))
    assert castsmith.common_type(operands, rules) is onnx_ir.DataType.DOUBLE
