"""Constants that do not widen: `weak_scalars` and `half_constants`, at the limits of each type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules, as_rules
from castsmith.numerics.promotion.scalars import common_type_of_constants, fits, holds
from castsmith.numerics.types import parse_type, type_name

INF, NAN = float("inf"), float("nan")


def common(rules: PromotionRules, *operands: tuple[str, int, Any]) -> str | None:
    """The common type of operands: type, rank, the value of a constant or None."""
    given = [(parse_type(name), rank, None if value is None else np.array(value)) for name, rank, value in operands]
    found = common_type_of_constants(given, rules)
    return None if found is None else type_name(found)


WEAK = PromotionRules(promote_unsafe=True, library="torch", weak_scalars=True)
BESIDE = {
    ("float16", "double", 65504.0): "float16",
    ("float16", "double", 0.1): "double",
    ("float16", "double", INF): "float16",
    ("float16", "double", 65536.0): "double",
    ("int8", "int64", 127): "int8",
    ("int8", "int64", 128): "int64",
    ("int8", "int64", -128): "int8",
    ("int8", "int64", -129): "int64",
    ("uint8", "int64", -1): "int64",
    ("int32", "float16", 2.0): "float",
    ("int32", "double", 0.5): "float",
    ("int32", "double", 0.1): "double",
    ("bool", "int32", 1): "int64",
    ("float", "int64", 2**24 + 1): "float",
}


@pytest.mark.parametrize(("other", "constant", "value"), BESIDE)
def test_a_number_keeps_its_value_without_widening(other: str, constant: str, value: Any) -> None:
    assert common(WEAK, (other, 1, None), (constant, 0, value)) == BESIDE[other, constant, value]


def test_weak_numbers_only_beside_other_operands() -> None:
    assert common(WEAK, ("float16", 0, 1.0), ("double", 0, 1.0)) == "double"
    assert common(WEAK, ("float16", 1, None), ("double", 1, None)) == "double"
    plain = PromotionRules(promote_unsafe=True, library="torch")
    assert common(plain, ("float16", 1, None), ("double", 1, 1.0)) == "double"


def test_numbers_beside_what_is_no_number_or_unknown() -> None:
    """They are refused as other operands are; and a common type that depends on a rank is unknown with them, too."""
    for strong, constant, value in (("string", "int64", 1), ("int64", "string", "a"), ("float", "string", "1.5")):
        with pytest.raises(PromotionError, match=r"^(string with|\w+ with string) .*no common type"):
            common(WEAK, (strong, 1, None), (constant, 0, value))
    for strong, constant, value in (("complex64", "float", 1.0), ("float", "complex64", 1j)):
        with pytest.raises(PromotionError, match="complex64"):
            common(WEAK, (strong, 1, None), (constant, 0, value))
    torch = PromotionRules.preset("torch")
    for constants in ([], [("int64", 0, 1)], [("double", 0, 0.1)]):
        operands: list[tuple[str, Any, Any]] = [("double", None, None), ("float16", 1, None), *constants]
        assert common(torch, *operands) is None


HALF = PromotionRules(half_constants=True)


def test_a_constant_gives_way_to_one_16_bit_type() -> None:
    assert common(HALF, ("float16", 2, None), ("float", 1, [0.1, 65504.0])) == "float16"
    assert common(HALF, ("float16", 2, None), ("float", 1, [0.1, 65520.0])) == "float"
    assert common(HALF, ("bfloat16", 2, None), ("float", 0, 1e-30)) == "bfloat16"
    assert common(HALF, ("float", 2, None), ("double", 0, 0.5)) == "double"
    unsafe = PromotionRules(promote_unsafe=True, half_constants=True)
    assert common(unsafe, ("float16", 2, None), ("bfloat16", 2, None), ("double", 0, 0.5)) == "double"
    assert common(unsafe, ("float16", 0, 1.0), ("double", 0, 0.5)) == "double"
    assert common(HALF, ("float16", 2, None), ("float", 1, None), ("float", 0, 0.5)) == "float"
    assert common(PromotionRules(), ("float16", 2, None), ("float", 0, 0.5)) == "float"


def test_what_fits_a_16_bit_type() -> None:
    half = DataType.FLOAT16
    for value, fitting in (
        ([0.0, -0.0], True), ([1e-9], False), ([1e-9, 1.0], True), ([INF, NAN], True), ([65519.0], True),
        ([65520.0], False), ([], False),
    ):  # fmt: skip
        assert fits(np.array(value, np.float32), DataType.FLOAT, half) is fitting, value
    assert not fits(np.array([1]), DataType.INT64, half)


def test_what_a_type_holds() -> None:
    for value, dtype, target, held in (
        (255, "int64", "uint8", True), (256, "int64", "uint8", False), (-1, "int64", "uint8", False),
        (1.5, "float", "int8", False), (NAN, "float", "int8", False), (1.0, "float", "int8", True),
        (2049, "int64", "float16", False), (2048, "int64", "float16", True), (70000, "int64", "float16", False),
        (0.1, "double", "float", False), (0.5, "double", "float", True), (NAN, "double", "float16", True),
        (-INF, "double", "float16", True), (1e300, "double", "float16", False), (INF, "double", "int64", False),
        (2.0**63, "double", "int64", False), (2.0**63, "double", "uint64", True), (-(2.0**63), "double", "int64", True),
        (2.0**64, "double", "uint64", False), (2.0**31, "float", "int32", False), (127.0, "float", "int8", True),
        (128.0, "float", "int8", False), (-129, "int64", "int8", False), (2**63 - 1, "int64", "double", False),
        (2**62, "int64", "double", True), (1, "int64", "bool", True), (2, "int64", "bool", False),
    ):  # fmt: skip
        given = np.array(value, parse_type(dtype).numpy())
        assert bool(holds(given, parse_type(dtype), parse_type(target))) is held, (value, target)


def test_rules_by_name_by_file_and_by_default(tmp_path: Path) -> None:
    assert as_rules(None) == PromotionRules()
    defaults = PromotionRules()
    flags = (defaults.promote_unsafe, defaults.pytorch_scalar_promotion, defaults.weak_scalars, defaults.half_constants)
    assert flags == (False, False, False, False)
    assert (defaults.u64_integer_promotion_target, defaults.library) == (DataType.FLOAT, "openvino")
    assert as_rules(WEAK) is WEAK
    assert as_rules("half") == HALF
    file = tmp_path / "mine.json"
    file.write_text('{"name": "mine", "library": "jax", "promote_unsafe": true, "weak_scalars": true}')
    assert as_rules(str(file)) == PromotionRules(promote_unsafe=True, library="jax", weak_scalars=True)
    wrong = {
        "[]": "does not describe a promotion: it is not an object",
        "{}": "'name' is missing",
        '{"name": "mine", "libary": "jax"}': "unknown field 'libary'",
        '{"name": "mine", "library": "cobol"}': "unknown library 'cobol'; expected openvino",
    }
    for text, said in wrong.items():
        file.write_text(text)
        with pytest.raises(PromotionError, match=said):
            as_rules(str(file))
    with pytest.raises(PromotionError, match="unknown promotion preset 'touch'; did you mean 'torch'"):
        as_rules("touch")
