"""Every argument of every public function takes odd values: it works, or raises an error of Castsmith in its words."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import MISSING, fields
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import castsmith
from castsmith.lowering.registry import PASSES, option_names, pass_class
from tests.sampling import check_all, sampled

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
)
FIRST: dict[str, tuple[Any, ...]] = {
    "optimize": (MODEL,),
    "convert": (MODEL,),
    "fit": (MODEL,),
    "check": (MODEL,),
    "bounds": (MODEL,),
    "verify": (MODEL, MODEL),
    "diff": (MODEL, MODEL),
    "save": (MODEL, "saved.onnx"),
    "load": ("model.onnx",),
    "cast": ([1.0], "float16"),
    "promote_types": ("float", "int8"),
}
NEEDED: dict[str, dict[str, Any]] = {"convert": {"to": "float16"}, "fit": {"target": "onnxruntime-cpu"}}
ODD: tuple[Any, ...] = (
    *("a", "", -1, 0, 2**70, 1.5, math.nan, math.inf, b"x", object(), [], ["a"], {}, {"a": 1}, {1: 2}, {"x": "y"}),
    *((1, 2), np.zeros(2), True, None, {"x": (1,)}, [[("a",)]]),
)
CASES = [(name, argument) for name in FIRST for argument in signature(getattr(castsmith, name)).parameters]


@pytest.mark.filterwarnings("ignore")
def test_an_odd_value_is_taken_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(MODEL, "model.onnx")

    def check(name: str, argument: str, number: int) -> None:
        function, values = getattr(castsmith, name), list(FIRST[name])
        named = dict(NEEDED.get(name, {}))
        place = list(signature(function).parameters).index(argument)
        if place < len(values):
            values[place] = ODD[number]
        else:
            named[argument] = ODD[number]
        with suppress(castsmith.CastsmithError):
            function(*values, **named)

    cases = [(*case, number) for case in CASES for number in range(len(ODD))]
    check_all(check, sampled("odd arguments of functions", cases, 500, cover=lambda case: [case[:2]]))


@pytest.mark.filterwarnings("ignore")
def test_an_odd_value_of_an_option_of_a_pass_is_taken_or_refused() -> None:
    for name in PASSES:
        of_class: type[Any] = pass_class(name)
        needed = {field.name: "onnxruntime-cpu" for field in fields(of_class) if field.default is MISSING}
        for option in option_names(name):
            for value in ODD:
                with suppress(castsmith.CastsmithError):
                    of_class(**{**needed, option: value})


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("optimize", {"narow": "int64"}, "optimize() has no option 'narow'; did you mean 'narrow'?"),
        ("convert", {}, "convert() needs the option 'to'."),
    ],
)
def test_a_call_with_other_options_names_the_function(name: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as raised:
        getattr(castsmith, name)(MODEL, **values)
    assert str(raised.value) == said
