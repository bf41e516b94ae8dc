"""Nodes of QONNX: domains, versions of Trunc, defaults of flags, and what the executor of qonnx runs."""

from __future__ import annotations

from typing import Any

import onnx_ir
import pytest

from castsmith.ir.errors import ModelError
from castsmith.ir.ops.qonnx import (
    DEFAULTS,
    QONNX_DOMAINS,
    TruncNode,
    flag,
    is_quantizer,
    is_trunc,
    read_trunc,
    runs_in_qonnx,
    trunc_operands,
)

Q, BREVITAS, FINN, DOCUMENTED = QONNX_DOMAINS
FLAGS = {
    "Quant": ("signed", "narrow"),
    "IntQuant": ("signed", "narrow"),
    "BipolarQuant": (),
    "FloatQuant": ("has_inf", "has_nan", "has_subnormal", "saturation"),
}
"""Attributes that the executor of qonnx 1.0.0 reads without a default."""


def node_of(op_type: str, inputs: int = 5, domain: str = Q, **attributes: Any) -> onnx_ir.Node:
    """A node with as many inputs."""
    return onnx_ir.node(op_type, [onnx_ir.Value(name=f"x{i}") for i in range(inputs)], attributes, domain=domain)


def set_to(number: int, *names: str) -> dict[str, Any]:
    return dict.fromkeys(names, number)


def test_which_nodes_quantize() -> None:
    assert (
        *("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general", "qonnx.custom_ops.general"),
    ) == QONNX_DOMAINS
    for op_type in ("Quant", "IntQuant", "BipolarQuant", "FloatQuant", "Trunc", "TruncQuant", "Other"):
        for domain in (*QONNX_DOMAINS, "", "d"):
            node = node_of(op_type, domain=domain)
            assert is_quantizer(node) is (op_type != "Other" and domain in QONNX_DOMAINS), (op_type, domain)
            assert is_trunc(node) is (op_type.startswith("Trunc") and domain in QONNX_DOMAINS), (op_type, domain)


TRUNCS: list[tuple[str, str, int, dict[str, int], tuple[int, bool] | None]] = [
    ("Trunc", Q, 5, {}, (1, True)),  # (version, guessed)
    ("Trunc", Q, 6, {}, (2, True)),
    ("Trunc", Q, 4, {}, None),
    ("Trunc", Q, 7, {}, None),
    ("Trunc", Q, 5, {Q: 1}, (1, False)),
    ("Trunc", Q, 6, {Q: 2}, (2, False)),
    ("Trunc", Q, 6, {Q: 3}, (2, False)),
    ("Trunc", Q, 5, {Q: 2}, None),
    ("Trunc", Q, 6, {Q: 1}, None),
    ("Trunc", BREVITAS, 5, {Q: 2}, (1, True)),  # the import of another domain
    ("TruncQuant", BREVITAS, 6, {}, (2, False)),
    ("TruncQuant", BREVITAS, 6, {BREVITAS: 1}, (2, False)),
    ("TruncQuant", BREVITAS, 5, {BREVITAS: 1}, None),
]


@pytest.mark.parametrize(("op_type", "domain", "inputs", "imports", "expected"), TRUNCS)
def test_versions_of_trunc(
    op_type: str, domain: str, inputs: int, imports: dict[str, int], expected: tuple[int, bool] | None
) -> None:
    node = node_of(op_type, inputs, domain)
    if expected is None:
        version = 2 if op_type == "TruncQuant" else imports.get(domain)
        named = f"{domain} {version}" if version else domain
        with pytest.raises(ModelError) as caught:
            read_trunc(node, imports)
        place = f"(unnamed): (unnamed) ({op_type})"
        assert str(caught.value) == f"{place}: {op_type} has {inputs} inputs, which fits no version of it in {named}."
        return
    assert read_trunc(node, imports) == TruncNode(*expected, rounding_mode="FLOOR", signed=True, narrow=False)
    told = node_of(op_type, inputs, domain, rounding_mode="CEIL", signed=0, narrow=1)
    assert read_trunc(told, imports) == TruncNode(*expected, rounding_mode="CEIL", signed=False, narrow=True)
    node.replace_input_with(2, None)
    with pytest.raises(ModelError, match="which fits no version"):
        read_trunc(node, imports)


def test_a_trunc_whose_attribute_is_a_parameter() -> None:
    node = node_of("Trunc")
    node.attributes.add(onnx_ir.RefAttr("rounding_mode", "p", onnx_ir.AttributeType.STRING))
    with pytest.raises(ModelError, match="an attribute of Trunc is a parameter of the function around it"):
        read_trunc(node, {})


def test_operands_of_trunc() -> None:
    first = ["x", "scale", "zero_point", "in_bitwidth"]
    for version, inputs, names in ((1, 5, [*first, "out_bitwidth"]), (2, 6, [*first, "out_scale", "out_bitwidth"])):
        node = node_of("Trunc", inputs)
        assert list(trunc_operands(node, version).items()) == list(zip(names, node.inputs, strict=True))
        node.replace_input_with(2, None)
        assert [*trunc_operands(node, version)] == [name for name in names if name != "zero_point"]


def test_flags_and_their_defaults() -> None:
    """Of the documents of qonnx 1.0.0."""
    on = {"signed", "has_subnormal", "saturation"}
    assert DEFAULTS.keys() == {"signed", "narrow", "has_inf", "has_nan", "has_subnormal", "saturation"}
    for name in DEFAULTS:
        assert [flag(node_of("Quant"), name), flag(node_of("Quant", **set_to(0, name)), name)] == [name in on, False]
        assert flag(node_of("Quant", **set_to(1, name)), name)


def test_what_the_executor_of_qonnx_runs() -> None:
    def runs(node: onnx_ir.Node, imports: dict[str, int] | None = None, *, inside: bool = False) -> bool:
        graph = onnx_ir.Graph([], [], nodes=[node], opset_imports={})
        main = onnx_ir.Graph([], [], nodes=[], opset_imports={}) if inside else graph
        return runs_in_qonnx(node, main, imports or {})

    for op_type, required in FLAGS.items():
        whole = set_to(1, *required)
        assert runs(node_of(op_type, 4, **whole))
        assert not runs(node_of(op_type, **whole), inside=True)
        for name in required:
            assert not runs(node_of(op_type, **set_to(1, *(key for key in required if key != name)))), (op_type, name)
    assert not runs(node_of("Other"))
    assert not runs(node_of("TruncQuant", 6, BREVITAS, rounding_mode="FLOOR"))
    assert not runs(node_of("Trunc"))
    for domain, inputs, imported, expected in (
        (Q, 5, 0, True), (Q, 6, 0, False), (Q, 5, 1, True), (Q, 6, 1, False), (Q, 5, 2, False), (Q, 6, 2, True),
        (Q, 6, 3, True), (FINN, 5, 2, True), (FINN, 6, 2, False), (DOCUMENTED, 6, 2, True),
    ):  # fmt: skip
        node = node_of("Trunc", inputs, domain, rounding_mode="FLOOR")
        assert runs(node, {domain: imported} if imported else {}) is expected, (domain, inputs, imported)
