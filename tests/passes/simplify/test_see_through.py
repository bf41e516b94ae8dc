"""Which operators depend on a cast of their operand: asked of every number of a type; each witness is one."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.casts import read_cast
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.critical import every_value
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import ELEMENT_TYPES, element_type, type_name
from castsmith.passes.simplify.see_through import why_seen
from tests.sampling import check_all

NAMES = ("INT4", "INT8", "UINT8", "INT16", "FLOAT16", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
SOURCES = [DataType[name] for name in NAMES]
TARGETS = [dtype for dtype in ELEMENT_TYPES if dtype in (*SOURCES, DataType.BOOL, DataType.FLOAT, DataType.INT32)]
QUESTIONS: dict[str, tuple[str, dict[str, int], Any]] = {
    "IsNaN": ("IsNaN", {}, np.isnan),
    "NonZero": ("NonZero", {}, partial(np.not_equal, 0)),
    "IsInf": ("IsInf", {}, np.isinf),
    "of minus": ("IsInf", {"detect_positive": 0}, np.isneginf),
    "of plus": ("IsInf", {"detect_negative": 0}, np.isposinf),
}
OPSET = 25


def numbers_of(source: DataType, to: DataType, saturate: int) -> tuple[Any, Any, Any]:
    """Every number of a type, what it becomes, and whether the standard fixes that."""
    values = every_value(source)
    settings: dict[str, Any] = {"saturate": bool(saturate), "opset": OPSET}
    images, status = cast(values, to, **settings), cast_status(values, to, **settings)
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64), images.astype(np.float64), status == 0


def seen(op_type: str, attributes: dict[str, int], source: DataType, to: DataType, saturate: int) -> Any:
    x = onnx_ir.Value(name="x", type=onnx_ir.TensorType(source))
    step = onnx_ir.node("Cast", [x], {"to": int(to), "saturate": saturate})
    meaning = read_cast(step, None)
    assert meaning is not None
    return why_seen(onnx_ir.node(op_type, step.outputs, attributes), source, meaning, OPSET)


def require_an_answer(name: str, source: DataType, to: DataType, saturate: int) -> None:
    op_type, attributes, question = QUESTIONS[name]
    values, images, fixed = numbers_of(source, to, saturate)
    wrong = (question(values) != question(images)) | ~fixed
    why = seen(op_type, attributes, source, to, saturate)
    assert (why is None) == (not wrong.any())
    if why is not None:
        assert why[0] == f"{op_type} differs before and after the cast of this value"
        assert float(why[1].lower().replace("true", "1")) in values[wrong] or np.isnan(float(why[1]))


def require_an_order(op_type: str, source: DataType, to: DataType, saturate: int) -> None:
    values, images, fixed = numbers_of(source, to, saturate)
    why = seen(op_type, {}, source, to, saturate)
    if op_type == "ArgMax" and element_type(source).has_nan:
        assert why == ("the standard does not define the position of NaN in ArgMax", "nan")
        return
    order = np.argsort(values, kind="stable")
    ordered, of_ordered = values[order], images[order]
    kept = (of_ordered[1:] > of_ordered[:-1]) | (ordered[1:] == ordered[:-1]) | np.isnan(ordered[1:])
    if why is None:
        assert fixed.all()
        assert kept.all()
        return
    reason, (said, witness) = f"{type_name(to)} does not hold every {type_name(source)}", why
    if not fixed.all():
        assert said == f"{reason}; the standard does not define the cast of this value"
        undefined = values[~fixed]
        assert float(witness) in undefined or (np.isnan(float(witness)) and np.isnan(undefined).any())
    elif kept.all():
        assert why == (reason, "")
    else:
        assert said == f"{reason}: it maps these two to one"
        low, high = map(float, witness.split(" and "))
        assert low < high
        (first,), (second,) = images[values == low][:1], images[values == high][:1]
        assert not first < second


def test_questions_about_a_number() -> None:
    check_all(require_an_answer, product(QUESTIONS, SOURCES, TARGETS, (0, 1)))


def test_the_order_of_numbers() -> None:
    check_all(require_an_order, product(("ArgMax", "Less", "Equal", "Gather"), SOURCES, TARGETS, (0, 1)))


def test_an_operator_that_reads_no_elements_sees_no_cast() -> None:
    for source, to in product(SOURCES, TARGETS):
        assert seen("Shape", {}, source, to, 1) is None
    for source, to in ((DataType.STRING, DataType.FLOAT), (DataType.FLOAT, DataType.STRING)):
        why = seen("Equal", {}, source, to, 1)
        assert why == (f"casts between {type_name(source)} and {type_name(to)} are not analysed", "")
