"""Patterns by which a user selects nodes: a name, an operator or a path of modules, with `*`, `?` and `[]`.

/encoder/layer.0/attn/MatMul   a node by its name
Softmax, com.microsoft.Gelu    an operator
encoder.layer.0                a module and all in it, by the names of nodes or the metadata of PyTorch's exporter
op:Softmax, name:conv*, path:encoder.*   only that
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property

import onnx_ir

from castsmith.ir.walks import graphs_of
from castsmith.numerics.errors import OptionError, did_you_mean

_KINDS = ("op", "name", "path")
_SCOPES = ("pkg.torch.onnx.name_scopes", "namespace", "pkg.torch.onnx.namespace")
"""Metadata of a node in which exporters store its modules."""


@dataclass(frozen=True)
class Pattern:
    """A pattern of nodes.

    Attributes:
        kind: The property it is matched with; empty: the operator, the name and the path.
        why: The reason in records of the nodes that it matches, by default the pattern.
        results: The names of the first results of the nodes that it matches, if they are of the operator `glob` or that
            is empty: functions use names of the main graph again.
    """

    text: str
    kind: str
    glob: str
    why: str = ""
    results: frozenset[str] = frozenset()

    def matches(self, node: onnx_ir.Node) -> bool:
        """True if the node matches."""
        if self.results:
            return bool(node.outputs) and node.outputs[0].name in self.results and self.glob in ("", node.op_type)
        return (
            (self.kind in ("", "op") and any(self._is(operator) for operator in _operators(node)))
            or (self.kind in ("", "name") and any(self._is(name) for name in _names(node)))
            or (self.kind in ("", "path") and any(self._leads(path) for path in paths_of(node)))
        )

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(translate(self.glob))

    @cached_property
    def _steps(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(translate(step)) for step in steps_of(self.glob))

    def _is(self, text: str) -> bool:
        return bool(text) and self._whole.match(text) is not None

    def _leads(self, path: tuple[str, ...]) -> bool:
        """True if the steps of the pattern are the first steps of the path."""
        wanted = self._steps
        return 0 < len(wanted) <= len(path) and all(step.match(part) for step, part in zip(wanted, path, strict=False))


class Asked:
    """The nodes that patterns select, with all inside them: the subgraphs of control flow, the bodies of functions."""

    def __init__(self, patterns: Sequence[Pattern], what: str, nodes: Iterable[onnx_ir.Node]) -> None:
        """Match the nodes by the operators that they have now: a copy of a function gets another name."""
        self._patterns, self._what = patterns, what
        self._matched = {node: why for node in nodes if (why := self._by_pattern(node))}

    def _by_pattern(self, node: onnx_ir.Node) -> str:
        pattern = next((pattern for pattern in self._patterns if pattern.matches(node)), None)
        return "" if pattern is None else pattern.why or f"{self._what} {pattern.text}"

    def with_all_inside(self, model: onnx_ir.Model) -> dict[onnx_ir.Node, str]:
        """Return the nodes of the model that were asked for or are inside of one, at any depth, and the reasons.

        The body of a function belongs to all of its calls.
        """
        reasons = dict[onnx_ir.Node, str]()
        waiting = [(node, "") for scope in (model.graph, *model.functions.values()) for node in scope]
        while waiting:
            node, why = waiting.pop()
            if node in reasons:
                continue
            why = why or self._matched.get(node) or self._by_pattern(node)
            if why:
                reasons[node] = why
            held = graphs_of(node)
            function = model.functions.get(node.op_identifier()) if why else None
            held += [] if function is None else [function.graph]
            waiting += [(inner, why) for graph in held for inner in graph]
        return reasons


def exact_pattern(results: Iterable[str], why: str, operator: str = "") -> Pattern:
    """Return the pattern of the nodes, of one operator if it is stated, whose first results have these names."""
    names = frozenset(results)
    return Pattern(", ".join(sorted(names)), "", operator, why, names)


def parse_patterns(given_patterns: str | Iterable[str | Pattern], option: str) -> tuple[Pattern, ...]:
    """Parse the patterns of an option: texts, each with one or more separated by commas. Raises OptionError."""
    texts = [given_patterns] if isinstance(given_patterns, str) else list(given_patterns)
    patterns: list[Pattern] = []
    for text in texts:
        if isinstance(text, Pattern):
            patterns.append(text)
            continue
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"invalid value {text!r} for `{option}=`; expected names, operators or paths as text.")
        for part in (part.strip() for part in text.split(",")):
            kind, colon, glob = part.partition(":")
            is_kind = bool(colon) and kind in _KINDS and not glob.startswith(":")
            kind, glob = (kind, glob) if is_kind else ("", part)
            if not glob:
                raise OptionError(f"invalid value {text!r} for `{option}=`; a pattern is empty.")
            patterns.append(Pattern(part, kind, glob))
    return tuple(patterns)


def require_matches(patterns: Sequence[Pattern], nodes: Sequence[onnx_ir.Node], option: str) -> None:
    """Raise OptionError for a pattern that matches no node of the model."""
    for pattern in patterns:
        if not any(map(pattern.matches, nodes)):
            raise OptionError(f"`{option}=` {pattern.text!r} matches no node; {_meant(pattern, nodes)}")


def _meant(pattern: Pattern, nodes: Sequence[onnx_ir.Node]) -> str:
    """Return the end of the sentence: the most similar operator, node or module, or what a pattern is."""
    names = {text for node in nodes for text in (*_operators(node), *_names(node))}
    names |= {".".join(path[:count]) for node in nodes for path in paths_of(node) for count in range(1, len(path) + 1)}
    return did_you_mean(pattern.glob, sorted(filter(None, names)), "give a node name, an operator, or a module path")


def steps_of(path: str) -> tuple[str, ...]:
    """Return the modules in a path: `/encoder/layer.0/` and `encoder.layer.0` both are encoder, layer, 0."""
    return tuple(step for step in re.split(r"[./]+", path) if step)


def paths_of(node: onnx_ir.Node) -> Iterator[tuple[str, ...]]:
    """Return the paths of the node's modules, from its metadata and its name."""
    if "/" in (node.name or ""):
        yield steps_of((node.name or "").rpartition("/")[0])
    for key in _SCOPES:
        text = node.metadata_props.get(key)
        if not text:
            continue
        if text.startswith("["):
            scopes = _literal(text)
            if scopes:
                yield steps_of(scopes[-2] if len(scopes) > 1 else scopes[-1])
        else:
            yield steps_of("/".join(part.partition(":")[0] for part in text.split("/")))


def _literal(text: str) -> list[str]:
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return []
    return [str(name) for name in names] if isinstance(names, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _names(node: onnx_ir.Node) -> Iterator[str]:
    """Return the name of the node, or those of its results if it has none."""
    yield from (node.name,) if node.name else (value.name or "" for value in node.outputs)


def _operators(node: onnx_ir.Node) -> tuple[str, ...]:
    return (node.op_type, f"{node.domain}.{node.op_type}", f"{node.domain}::{node.op_type}")
