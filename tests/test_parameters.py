"""Each parameter of each public function has an effect: what it returns, announces or writes differs with it.

Those of the functions behind commands are followed by way of the command line, in `tests/cli/test_effects.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.lowering import NodeBuilder, Replacement
from castsmith.passes.core.options import flag_of
from tests.cli.test_effects import HEAD, LARGE, MODELS, ROWS
from tests.lowering.fit.models import four_bits

pytestmark = pytest.mark.usefixtures("engines_here")

ON_COMMAND_LINE = {
    "ranges": "--range",
    "dims": "--dim",
    "verify_dims": "--dim",
    "verify_inputs": "--inputs",
    "lower": "--force",
    "trace": "--report",
    "seconds": "--time-limit",
    "accept": "--allow-type-change",
    "everything": "--all",
    "provenance": "--no-provenance",
}
"""Parameters that the command of the function has under another name."""
CUSTOM = """<ir_version: 10, opset_import: ["": 21, "com.example": 1]>
g (float[4] x) => (float[4] y) { y = com.example.Twice (x) }"""
SCALED = f"{HEAD} g (float16[2] x) => (float16[2] z) <float k = {{2}}> {{ z = Add (x, k) }}"
FOUR_BITS = four_bits()
UNSAFE = {"promote_unsafe": True}


def twice(node: onnx_ir.Node, build: NodeBuilder) -> Replacement:
    (x,) = node.inputs
    assert x is not None
    return build.replace(build.op("Mul", x, 2), reason="x * 2")


def run(name: str, text: str, options: dict[str, Any]) -> object:
    """Call the function with the model; return what it makes of it, what it announces, and the model afterwards."""
    model, said = onnx_ir.from_proto(FOUR_BITS if text == "4 bits" else onnx.parser.parse_model(text)), list[str]()
    if "progress" in options:
        options = {**options, "progress": said.append}
    function = getattr(castsmith, name)
    result = function(model, model, **options) if name == "verify" else function(model, **options)
    if isinstance(result, castsmith.Result):
        ways = len(result.ways) if isinstance(result, castsmith.FitResult) else 0
        return onnx_ir.to_proto(result.model).SerializeToString(), ways, said, onnx_ir.to_onnx_text(model)
    return result.runs if name == "verify" else result, said


# By function and parameter: a model, the other options, and a value that is not the default.
MODELLED: dict[str, dict[str, tuple[str, dict[str, Any], Any]]] = {
    "optimize": {
        "library": (MODELS["unsafe"], {"promote_unsafe": True}, "numpy"),
        "weak_scalars": (SCALED, {"library": "numpy"}, True),
        "half_constants": (SCALED, UNSAFE, True),
        "lowerings": (CUSTOM, {"target": "onnxruntime-android"}, {"com.example.Twice": twice}),
        "in_place": (MODELS["chain"], {}, True),
        "progress": (MODELS["chain"], {}, print),
    },
    "convert": {
        "keep_io_types": (MODELS["squares"], {"to": "float16"}, False),
        "in_place": (MODELS["squares"], {"to": "float16"}, True),
        "provenance": (MODELS["squares"], {"to": "float16"}, False),
        "progress": (MODELS["squares"], {"to": "float16"}, print),
    },
    "fit": {
        "all_ways": ("4 bits", {"target": "onnxruntime-webgpu", "max_error": 0.1}, True),
        "progress": (MODELS["cast8"], {"target": "onnxruntime-android"}, print),
    },
    "verify": {
        "shapes": (MODELS["nameless"], {}, {"x": (50,)}),
        "progress": (MODELS["nameless"], {}, print),
    },
}

# Arguments of a function of values or types, and by parameter: the other options, and a value that is not the default.
_NARROW = np.array([1000, np.inf, -1], np.float32)
VALUED: dict[str, list[tuple[tuple[Any, ...], dict[str, tuple[dict[str, Any], Any]]]]] = {
    "cast": [
        ((_NARROW, "float8e4m3fnuz"), {"saturate": ({}, False), "opset": ({}, 23)}),
        ((np.array([5], np.float32), "float8e8m0"), {"round_mode": ({}, "down")}),
    ],
    "cast_status": [
        ((_NARROW, "float8e4m3fnuz"), {"saturate": ({"opset": 23}, False), "opset": ({}, 23)}),
        ((np.array([np.inf], np.float32), "float8e8m0"), {"round_mode": ({"saturate": False}, "nearest")}),
    ],
    "chain_collapses": [
        (("float", "float8e4m3fn", "float8e4m3fn"), {"first_saturate": ({}, False), "second_saturate": ({}, False)}),
        (("float", "float8e8m0", "float8e8m0"), {"first_round_mode": ({}, "down"), "second_round_mode": ({}, "down")}),
        (("bfloat16", "float16", "float8e4m3fnuz"), {"opset": ({}, 23)}),
        (("bfloat16", "float16", "uint8"), {"undefined_free": ({}, True)}),
    ],
    "promote_types": [
        (("uint64", "int8"), {"u64_integer_promotion_target": ({"promote_unsafe": True}, "double")}),
        (("int64", "float"), {"promote_unsafe": ({}, True)}),
        (("float16", "float"), {"rhs_rank": ({"pytorch_scalar_promotion": True, "promote_unsafe": True}, 0),
                                "pytorch_scalar_promotion": ({"rhs_rank": 0, "promote_unsafe": True}, True)}),
        (("float", "float16"), {"lhs_rank": ({"pytorch_scalar_promotion": True, "promote_unsafe": True}, 0)}),
    ],
    "trunc": [
        ((9.0, 1.0, 0.0, 8, 4, 16.0), {"rounding_mode": ({}, "CEIL")}),
        ((-129.0, 1.0, 0.0, 8, 4, 16.0), {"signed": ({}, False), "narrow": ({}, True)}),
        ((100.0, 1.0, 0.0, 8, 4), {"out_scale": ({}, 32.0), "version": ({"out_scale": 16.0}, 1)}),
    ],
}  # fmt: skip
SAVED: dict[str, tuple[dict[str, Any], Any]] = {
    "external_data": ({}, "w.bin"),
    "reference_data": ({}, True),
    "shard_bytes": ({"external_data": "w.bin"}, 3000),
}
NOT_HERE = {
    "cast compiled": "another implementation, with the same results: tests/numerics/cast/test_compiled.py",
    "common_type rules": "tests/numerics/promotion",
    "optimize certificate": "tests/verification/test_checker.py",
}


def options_of(function: Callable[..., object]) -> set[str]:
    """Return the parameters that have a default."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if each.default is not inspect.Parameter.empty and each.name != "self"}


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    for name in castsmith.__all__:
        thing: Any = getattr(castsmith, name)
        if inspect.isfunction(thing):
            yield name, thing
        save: Any = getattr(thing, "save", None)
        if inspect.isclass(thing) and save is not None:
            yield f"{name}.save", save


def test_each_parameter_has_a_row_or_a_reason() -> None:
    missing = set[str]()
    for name, function in public_functions():
        rows = {*MODELLED.get(name, ()), *(each for _, options in VALUED.get(name, ()) for each in options)}
        rows |= {*SAVED} if name.endswith("save") else set()
        rows |= {
            each for each in options_of(function) if ON_COMMAND_LINE.get(each, flag_of(each)) in ROWS.get(name, ())
        }
        assert rows <= options_of(function), name
        missing |= {f"{name} {each}" for each in options_of(function) - rows}
    assert missing == {*NOT_HERE}


@pytest.mark.parametrize("name", MODELLED)
def test_a_parameter_of_models_has_an_effect(name: str) -> None:
    for parameter, (text, others, value) in MODELLED[name].items():
        without = run(name, text, others)
        assert run(name, text, others) == without
        assert run(name, text, {**others, parameter: value}) != without, parameter


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> object:
    """Return the result, or the text of a refusal."""
    try:
        result = function(*arguments, **options)
    except castsmith.CastsmithError as error:
        return str(error)
    return result.tobytes() if isinstance(result, np.ndarray) else result


@pytest.mark.parametrize("name", VALUED)
def test_a_parameter_of_values_has_an_effect(name: str) -> None:
    function: Callable[..., Any] = getattr(castsmith, name)
    for arguments, options in VALUED[name]:
        for parameter, (others, value) in options.items():
            results = [outcome(function, arguments, each) for each in (others, {**others, parameter: value})]
            assert results[0] != results[1], parameter


def files_of(name: str, folder: Path, options: dict[str, Any]) -> dict[str, bytes]:
    """Save a model beside its data file, and return all files that are there."""
    model = onnx.parser.parse_model(f"{HEAD} {LARGE['linked']}")
    for each in "vwi":
        array = np.ones(1024, np.int32 if each == "i" else np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, each))
    folder.mkdir()
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="linked.bin", size_threshold=0)
    loaded, kind = castsmith.load(folder / "m.onnx"), name.partition(".")[0]
    if name == "save":
        castsmith.save(loaded, folder / "out.onnx", **options)
    else:
        getattr(castsmith, kind)(loaded).save(folder / "out.onnx", **options)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("name", [name for name, _ in public_functions() if name.endswith("save")])
def test_a_parameter_of_save_has_an_effect(name: str, tmp_path: Path) -> None:
    for parameter, (others, value) in SAVED.items():
        without = files_of(name, tmp_path / f"without {parameter}", others)
        assert files_of(name, tmp_path / f"with {parameter}", {**others, parameter: value}) != without, parameter
