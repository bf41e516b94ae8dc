"""Sizes, shapes and ranges that options give, and the names that models have to have."""

from __future__ import annotations

import argparse
from typing import Any

import onnx.parser
import onnx_ir
import pytest

from castsmith.cli.inputs import given_inputs, given_ranges, inputs_to_measure_on, require_names
from castsmith.numerics.errors import OptionError


def given(**options: Any) -> argparse.Namespace:
    nothing: dict[str, Any] = {"dim": [], "shape": [], "inputs": None, "range": [], "outcome": None}
    return argparse.Namespace(**{**nothing, **options})


def test_sizes_and_shapes_are_read() -> None:
    options = given(dim=["N=4", "M=0"], shape=["x=1x512", "a=b=7", "s="])
    dims = {"N": 4, "M": 0, "x": (1, 512), "a=b": (7,), "s": ()}
    assert given_inputs(options) == inputs_to_measure_on(options) == {"dims": dims, "inputs": None}
    assert given_inputs(given(dim=[f"N={'9' * 18}"]))["dims"] == {"N": 10**18 - 1}
    for text in ("N", "=4", "N=", "N=-1", "N=4x4", "N=1=2", f"N={'9' * 19}", "N=\u0663"):
        with pytest.raises(OptionError, match="is not of the form NAME=SIZE, such as batch=4"):
            given_inputs(given(dim=[text]))
    for text in ("x", "=4", "x=-1", "x=1x", "xx1", f"x=1x{'9' * 19}"):
        with pytest.raises(OptionError, match="is not of the form NAME=SIZExSIZE, such as tokens=1x512"):
            given_inputs(given(shape=[text]))


def test_ranges_are_read() -> None:
    options = given(range=["x=0:1", "a=b=-1.5:-1.5", "c:d=1e3:2e3"])
    assert given_ranges(options) == {"x": (0, 1), "a=b": (-1.5, -1.5), "c:d": (1000, 2000)}
    for text in ("x", "x=1", "=0:1", "x=1:0", "x=0:inf", "x=-inf:0", "x=nan:1", "x=a:b", "x=:", "0:1"):
        with pytest.raises(OptionError, match=r"invalid --range .*; expected NAME=LOW:HIGH, such as pixels=0:1"):
            given_ranges(given(range=[text]))


def model(inputs: str, outputs: str = "float y") -> onnx_ir.Model:
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}) => ({outputs}) {{ y = Identity (x) }}'
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


def test_names_that_no_model_has_are_refused() -> None:
    models = [model("float[N, 3] x"), model("float[M] x, float[?] i")]
    named = given(dim=["N=1", "M=2"], shape=["i=1"], allow_type_change=["all", "y", "x"])
    for options in (named, given(), given(dim=["Q=1"], outcome=1)):
        require_names(options, models)
    for options, said in (
        (given(dim=["Q=1", "P=1"]), "--dim P: unknown dimension; expected M, N."),
        (given(shape=["y=1"]), "--shape y: unknown input; expected i, x."),
        (given(allow_type_change=["z"]), "--allow-type-change z: unknown input or output; expected i, x, y."),
    ):
        with pytest.raises(OptionError) as error:
            require_names(options, models)
        assert str(error.value) == said
    fixed = model("float[2] x")
    with pytest.raises(OptionError, match="--dim N: unknown dimension; the model has none with a name"):
        require_names(given(dim=["N=1"]), [fixed])
    for count, more in ((8, ""), (9, " and 1 more")):
        many = model(f"float[{', '.join(f'd{index}' for index in range(count))}] x")
        with pytest.raises(OptionError) as error:
            require_names(given(dim=["N=1"]), [many])
        assert str(error.value) == f"--dim N: unknown dimension; expected d0, d1, d2, d3, d4, d5, d6, d7{more}."
