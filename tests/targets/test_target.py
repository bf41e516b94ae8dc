"""Target files load, name what is wrong with a bad one, and state only defects that the installed runtime has."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnx_ir
import onnxruntime
import pytest
from onnx.defs import get_schema
from onnx_ir import DataType

import castsmith
from castsmith.conformance.probe_models import EARLY, TEXTS, model_text, versions
from castsmith.conformance.probing import probe, target_text
from castsmith.lowering.builder import Builder
from castsmith.lowering.pipeline import optimize
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import ELEMENT_TYPES, FLOAT8_TYPES, parse_type
from castsmith.targets.statements import TargetError
from castsmith.targets.target import ALIASES, KEYS, TARGETS_FOLDER, aliases_of, load_target, target_names
from castsmith.verification.evaluate.engines import Prepared
from tests.lowering.runtime import run, sequence_model, session
from tests.sampling import complete_only, sampled
from tests.targets.other_engines import DESCRIPTIONS, models
from tests.versions import ONNX, ONNXRUNTIME


def test_every_shipped_target_loads():
    assert {"onnxruntime-android", "onnxruntime-cpu", "openvino-cpu", "tensorrt-10"} <= set(target_names())
    for name in target_names():
        target = load_target(name)
        assert target.name == name
        assert target.evidence
        assert target.kernels or "kernels" in target.unknown
    assert load_target("onnxruntime-android").lacks >= set(FLOAT8_TYPES)
    assert not load_target("onnxruntime-cpu").lacks & set(FLOAT8_TYPES)
    assert (load_target("onnxruntime-cpu").newest_opset, load_target("onnxruntime-cpu").newest_ir_version) == (28, 14)


RUNTIMES = """coreml iree jaxonnxruntime migraphx onnx-mlir onnx2torch onnxruntime-android onnxruntime-coreml
    onnxruntime-cpu onnxruntime-cuda onnxruntime-directml onnxruntime-migraphx onnxruntime-openvino onnxruntime-qnn
    onnxruntime-tensorrt-rtx onnxruntime-wasm onnxruntime-webgpu openvino-cpu openvino-gpu openvino-npu qonnx
    tensorrt-10 tensorrt-11 tflite tinygrad tract tvm vitis-ai"""


def test_the_runtimes_that_are_known_of_are_there():
    assert target_names() == RUNTIMES.split()


def test_only_what_was_measured_computes_as_written():
    """On the others arithmetic might be contracted or re-associated."""
    assert {name for name in target_names() if load_target(name).as_written} == {
        "onnxruntime-cpu",
        "onnxruntime-android",
    }


def test_what_is_unknown_is_not_claimed():
    target = load_target("openvino-gpu")
    assert {"kernels", "newest_opset", "newest_ir_version"} <= set(target.unknown)
    assert not target.has_kernel("Cast", DataType.FLOAT8E4M3FN, 28)
    assert target.has_kernel("Cast", DataType.FLOAT, 28)


def test_an_operator_that_was_not_asked_about_takes_the_types_with_arithmetic():
    target = load_target("onnxruntime-cpu")
    assert target.has_kernel("Atan", DataType.FLOAT, 26)
    assert not target.has_kernel("Atan", DataType.BFLOAT16, 26)
    assert not target.has_kernel("CenterCropPad", DataType.FLOAT8E4M3FN, 26)


@pytest.mark.parametrize("op_type", ["Identity", "Abs", "Add", "Mul", "Cast", "Concat", "Dropout"])
@pytest.mark.parametrize("opset", range(1, 8))
def test_below_the_oldest_opset_asked_about_an_unchanged_operator_has_its_kernel(op_type: str, opset: int) -> None:
    """Models of scikit-learn import opset 1 of the standard for their Identity and Cast, and load."""
    unchanged = get_schema(op_type, opset).since_version == get_schema(op_type, 7).since_version
    assert load_target("onnxruntime-cpu").has_kernel(op_type, DataType.FLOAT, opset) == unchanged


def _is_legal(model: bytes) -> bool:
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return True


@pytest.mark.parametrize("opset", sampled("old opsets of OpenVINO", [1, 5, 6], 1))
def test_what_openvino_takes_of_old_opsets_is_what_its_file_says(opset: int) -> None:
    """Add, Mul and most others are taken from opset 1 on."""
    openvino = pytest.importorskip("openvino")
    target, core = load_target("openvino-cpu"), openvino.Core()
    if openvino.__version__.split("-")[0].rpartition(".")[0] != target.release:
        pytest.skip("what the file says is of another release")
    asked = {name for name in TEXTS if opset in versions(name, DataType.FLOAT, 7)}
    taken = set[str]()
    for name in sorted(asked):
        model = onnx.parser.parse_model(model_text(name, DataType.FLOAT, opset, 8)).SerializeToString()
        if name not in EARLY and not _is_legal(model):
            asked.discard(name)
            continue
        try:
            core.compile_model(core.read_model(model), "CPU")
        except RuntimeError:
            continue
        taken.add(name)
    assert {name for name in asked if target.has_kernel(name, DataType.FLOAT, opset)} == taken
    assert opset > 1 or {"Add", "Mul", "Relu", "Identity"} <= taken


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("op_type", ["Add", "Mul", "Sub", "Div", "Sum", "Relu", "Sigmoid", "MatMul"])
def test_a_model_of_an_old_opset_that_openvino_loads_is_not_refused(op_type: str, opset: int) -> None:
    operands = "a" if op_type in ("Relu", "Sigmoid") else "a, b"
    text = f"g (float[2,2] a, float[2,2] b) => (float[2,2] y) {{ y = {op_type} ({operands}) }}"
    model = onnx.parser.parse_model(f'<ir_version: 3, opset_import: ["": {opset}]> {text}')
    assert castsmith.check(model, target="openvino-cpu") == []
    assert not optimize(model, target="openvino-cpu").diagnostics


@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnxruntime-android", "openvino-cpu"])
@pytest.mark.parametrize("dtype", ["float16", "float"])
@pytest.mark.parametrize("opset", [7, 13, 16, 17])
def test_layer_normalization_is_taken_below_the_opset_that_defines_it(target: str, dtype: str, opset: int) -> None:
    """ONNX Runtime fuses it into models of any opset, and loads them."""
    text = f"g ({dtype}[2,3] x, {dtype}[3] s) => ({dtype}[2,3] y) {{ y = LayerNormalization (x, s) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert not optimize(model, target=target).diagnostics


@pytest.mark.parametrize("target", ["onnxruntime-cpu", "openvino-cpu"])
@pytest.mark.parametrize("dtype", ["float16", "float", "double"])
def test_mod_of_floats_is_asked_about_with_fmod(target: str, dtype: str) -> None:
    text = f"g ({dtype}[2] a, {dtype}[2] b) => ({dtype}[2] y) {{ y = Mod <fmod = 1> (a, b) }}"
    text = f'<ir_version: 8, opset_import: ["": 16]> {text}'
    findings = castsmith.check(onnx.parser.parse_model(text), target=target)
    assert [finding.code for finding in findings if finding.code == "target-lacks-kernel"] == []
    assert "fmod = 1" in model_text("Mod", DataType[dtype.upper()], 16, 8)


@pytest.mark.skipif(onnxruntime.__version__ != "1.32.0", reason="what the file says is of 1.32.0")
@pytest.mark.skipif(ONNX >= (1, 23), reason="this onnx can probe")
def test_a_probe_needs_an_onnx_that_has_every_opset():
    with pytest.raises(TargetError, match="probing needs an onnx that has opset 28; the installed one is"):
        probe("onnxruntime-cpu")


@complete_only
@pytest.mark.skipif(ONNX < (1, 23), reason="this onnx cannot probe")
def test_the_file_of_onnxruntime_is_what_a_probe_finds():
    assert target_text(probe("onnxruntime-cpu")) == (TARGETS_FOLDER / "onnxruntime-cpu.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "engine", "version"),
    [("onnxruntime-cpu", "onnxruntime", "1.32.0"), ("openvino-cpu", "openvino", "2026.4.1")],
)
def test_wrong_casts_are_those_that_the_conformance_suite_found(name: str, engine: str, version: str) -> None:
    """Every conversion that its record has as wrong is in the file, and the record shows every entry of the file."""
    target = load_target(name)
    record = json.loads(
        (Path(__file__).parents[2] / "docs" / "conformance" / "engines" / f"{engine}.json").read_text("utf-8")
    )
    shown = set[int]()
    for case in record["details"]:
        named = re.fullmatch(r"cast_(\w+?)_to_(\w+?)(_no_saturate)?(?:_up|_down|_nearest)?_opset(\d+)", case)
        if named is None or "string" in (named[1], named[2]):
            continue
        source, to, saturate, opset = (
            parse_type(named[1]),
            parse_type(named[2]),
            named[3] is None,
            int(named[4]),
        )
        entries = enumerate(target.wrong_casts)
        covering = {i for i, entry in entries if entry.covers(source, to, saturate=saturate, opset=opset)}
        assert covering or target.leaves_unrounded(source, to) or {source, to} & target.narrowed.keys(), case
        shown |= covering
    assert record["version"] == version
    assert shown == set(range(len(target.wrong_casts)))


def test_rows_that_only_a_run_or_a_consumer_shows():
    """ONNX Runtime loads LSTM of double, and throws when it runs; OpenVINO refuses a sequence only as an output."""
    runtime, openvino = load_target("onnxruntime-cpu"), load_target("openvino-cpu")
    assert runtime.has_kernel("LSTM", DataType.FLOAT, 22)
    assert not runtime.has_kernel("LSTM", DataType.DOUBLE, 22)
    assert openvino.has_kernel("SplitToSequence", DataType.FLOAT16, 11)
    assert [runtime.has_kernel("RoiAlign", DataType.FLOAT, opset) for opset in (9, 16, 21, 22)] == [
        False,
        True,
        True,
        False,
    ]
    assert runtime.drops("RoiAlign", (DataType.INT64, DataType.FLOAT), 24) == 21
    assert runtime.drops("RoiAlign", (DataType.FLOAT,), 21) is None


def test_openvino_computes_mod_of_floats_by_a_quotient():
    """Its file states that as a hazard."""
    pytest.importorskip("openvino")
    assert "float-mod-by-quotient" in load_target("openvino-cpu").hazards
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[1] a, float[1] b) => (float[1] y)'
    model = onnx.parser.parse_model(text + " { y = Mod <fmod = 1> (a, b) }").SerializeToString()
    feeds = {"a": np.array([1e4], np.float32), "b": np.array([0.3], np.float32)}
    (quotient_based,), (right,) = (Prepared(name, model).run(feeds) for name in ("openvino whole", "onnxruntime"))
    assert right == np.fmod(feeds["a"], feeds["b"])
    assert quotient_based != right


def test_what_cannot_be_probed_is_said():
    with pytest.raises(TargetError, match="cannot be probed; only onnxruntime-cpu, openvino-cpu can"):
        probe("tensorrt-10")


@pytest.mark.parametrize("name", sorted(DESCRIPTIONS.keys() & set(target_names())))
def test_the_kernels_of_a_runtime_probed_elsewhere_are_of_probed_operators(name: str) -> None:
    """An operator of which some types were not tried is unknown: it is in neither list."""
    data = json.loads((TARGETS_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    listed = {op_type for row in data["kernels"] for op_type in row["operators"]}
    assert listed
    assert listed <= set(data["probed"])
    model = onnx.parser.parse_model("""<ir_version: 7, opset_import: ["": 11]>
        g (float[2] x, float[2] z) => (float[2] y) { s = Add (x, z) y = Relu (s) }""")
    (unmeasured,) = castsmith.check(model, target=name)
    assert unmeasured.code == "target-unknown"
    assert "measured at opset 17, not at opset 11" in unmeasured.message
    assert castsmith.optimize(model, target=name).model.graph.opset_imports[""] == 11


def test_the_models_of_other_engines_have_constants_for_optional_inputs() -> None:
    clip = [onnx.load_from_string(probe.model).graph for probe in models() if probe.op_type == "Clip"]
    assert len(clip) == 12
    assert all([value.name for value in graph.input] == ["x"] for graph in clip)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(TargetError, match=f"unknown target 'nowhere'; expected {', '.join(RUNTIMES.split())}, or "):
        load_target("nowhere")
    with pytest.raises(TargetError, match=r"unknown target 'OpenVINO-cp'; did you mean 'openvino-cpu'\?$"):
        load_target("OpenVINO-cp")
    with pytest.raises(TargetError, match=r"^none-such\.json cannot be read: No such file or directory\.$"):
        load_target("none-such.json")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ('{"description": "x"}', "'name' is missing"),
        (
            '{"name": "x", "description": "", "newest_opset": 20, "newest_ir_version": 9, "lacks": ["f7"]}',
            "'f7'",
        ),
        ("[]", r"does not describe a target: it is not an object\.$"),
        ("7", r"does not describe a target: it is not an object\.$"),
        ('"name"', r"does not describe a target: it is not an object\.$"),
        ('{"name": "x", "based_on": "y"}', "does not describe a target: unknown target 'y'; expected "),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, says: str):
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(TargetError, match=rf"mine\.json.*{says}"):
        load_target(str(path))


def test_a_file_of_ones_own(tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text(
        '{"name": "mine", "description": "d", "newest_opset": 20, "newest_ir_version": 9, "lacks": ["f16"]}'
    )
    assert load_target(str(path)).lacks == {DataType.FLOAT16}


STATED: dict[str, dict[str, object]] = {
    "supported types": {"types": ["float", "i64"]},
    "supported types in other spellings": {"types": ["f32", 7]},
    "unsupported types": {"lacks": ["double"]},
    "operators": {"types": ["float16", "float"], "kernels": [{"types": ["fp16"], "operators": {"Add": 7}}]},
    "a cast": {"types": ["float", "float8e4m3fn"], "kernels": [], "wrong_casts": [
        {"from": ["float"], "to": ["f8e4m3fn"], "wrong": "is late", "evidence": "seen"}]},
    "an old opset": {"newest_opset": 7, "newest_ir_version": None, "kernels": []},
    "nothing": {},
}  # fmt: skip


@pytest.mark.parametrize("name", STATED)
def test_a_target_in_python_is_the_one_that_the_same_file_describes(tmp_path: Path, name: str) -> None:
    data: dict[str, Any] = {"name": "npu", "description": "d", **STATED[name]}
    path = tmp_path / "npu.json"
    path.write_text(json.dumps(data))
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (double[2] x) => (float16[2] y, float8e4m3fn[2] z) {
            a = Cast <to = 1> (x) b = Cast <to = 10> (a) y = Add (b, b) z = Cast <to = 17> (a) }""")
    target, read = castsmith.Target(**data), load_target(str(path))
    assert target == replace(read, path="")
    findings = [[finding.code, finding.message] for finding in castsmith.check(model, target=target)]
    assert [[c, m.replace(str(path), "npu")] for c, m in findings] == findings
    assert [
        [finding.code, finding.message.replace(str(path), "npu")] for finding in castsmith.check(model, target=read)
    ] == findings
    assert findings


@pytest.mark.parametrize("key", ["types", "lacks"])
def test_what_is_not_a_type_is_refused_in_python(key: str) -> None:
    stated: dict[str, Any] = {key: ["f9"]}
    with pytest.raises(TargetError, match=r"^the target 'npu' is not valid: 'f9' is not an element type of ONNX"):
        castsmith.Target("npu", "", **stated)
    with pytest.raises(TargetError, match="a list of types is expected, not 'double'"):
        castsmith.Target("npu", "", **dict[str, Any]({key: "double"}))
    with pytest.raises(TargetError, match="unknown key 'form' of 'wrong_casts'; expected from, to"):
        castsmith.Target("npu", "", wrong_casts=[{"form": ["float"]}])


NO_STATEMENTS: list[tuple[dict[str, Any], str]] = [
    ({"kernels": {"f9": {"Add": 7}}}, "'f9' is not an element type of ONNX"),
    ({"kernels": [{"types": ["f9"], "operators": {}}]}, "'f9' is not an element type of ONNX"),
    ({"casts": {"float": ["f9"]}}, "'f9' is not an element type of ONNX"),
    ({"casts": {"float": "double"}}, "a list of types is expected, not 'double'"),
    ({"held": {"int64": "f9"}}, "'f9' is not an element type of ONNX"),
    ({"sums": {"MatMul": "f9"}}, "'f9' is not an element type of ONNX"),
    ({"dropped": {"f9": {}}}, "'f9' is not an element type of ONNX"),
    ({"wrong_fusions": [{"types": ["f9"], "operators": [], "how": ""}]}, "'f9' is not an element type of ONNX"),
    ({"kernels": {"float": ["Add"]}}, "kernels must state the first opset of each operator, as {'Add': 7}, not"),
    ({"kernels": {"float": {"Add": "7"}}}, "the first opset of Add in kernels must be an integer of at least 1"),
    ({"sequence_operators": ["Add"]}, "sequence_operators must state the first opset of each operator"),
    ({"probed": "Add"}, "probed must be a list of names, not 'Add'"),
    ({"domains": "com.microsoft"}, "domains must be a list of names, not 'com.microsoft'"),
    ({"unknown": "kernels"}, "unknown must be a list of names, not 'kernels'"),
    ({"newest_opset": "21"}, "newest_opset must be an integer of at least 1, not '21'"),
]


@pytest.mark.parametrize(("stated", "told"), NO_STATEMENTS, ids=range(len(NO_STATEMENTS)))
def test_what_is_no_statement_is_refused_in_python_and_in_a_file(
    tmp_path: Path, stated: dict[str, Any], told: str
) -> None:
    with pytest.raises(TargetError, match=rf"^the target 'npu' is not valid: {re.escape(told)}"):
        castsmith.Target("npu", **stated)
    path = tmp_path / "npu.json"
    path.write_text(json.dumps({"name": "npu", **stated}))
    with pytest.raises(TargetError, match=rf"npu\.json does not describe a target: {re.escape(told)}"):
        load_target(str(path))


ODD: list[Any] = [5, "x", ["x"], [5], [["x"]], {"x": 5}, {"x": ["y"]}, {"x": {"y": 5}}, {"float": "x"}, {5: None}]


def test_an_odd_value_of_any_statement_is_refused_in_words() -> None:
    messages = list[str]()
    for key, value in product(KEYS, ODD):
        stated: dict[str, Any] = {"name": "npu", key: value}
        try:
            castsmith.Target(**stated)
        except TargetError as error:
            messages.append(f"{key}={value!r}: {error}")
    words = r"no attribute|iterable|subscript|indices|unpack|update sequence|NoneType|Errno"
    assert messages
    assert not [message for message in messages if re.search(words, message)]


def test_the_files_name_what_is_supported() -> None:
    """So a type that a later version of ONNX adds is unsupported until a file names it."""
    for path in TARGETS_FOLDER.glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        assert "lacks" not in data, path.name
        target = load_target(path.stem)
        if "types" not in target.unknown:
            assert target.types == {parse_type(name) for name in data["types"]}
    older = castsmith.Target("t", "", lacks=["double"]).types
    assert older == {dtype for dtype, row in ELEMENT_TYPES.items() if row.since.ir_version <= 14} - {DataType.DOUBLE}


STATEMENTS = ("types", "kernels", "casts", "held", "newest_opset", "newest_ir_version", "quantization", "one_type",
              "sums", "wrong_casts", "wrong_fusions", "hazards", "as_written", "domains")  # fmt: skip


@pytest.mark.parametrize("name", target_names())
def test_every_statement_has_its_source_and_date(name: str) -> None:
    target = load_target(name)
    stated = [key for key in STATEMENTS if getattr(target, key) and key not in target.unknown]
    inherited = target.domains if target.fallback is None else target.domains - target.fallback.domains
    for key in stated:
        if key != "domains" or inherited:
            assert re.search(r"\b202\d-\d\d-\d\d\b", target.evidence.get(key, "")), key
    assert not target.newest_release or re.fullmatch(r"\S+ \(202\d-\d\d-\d\d\)", target.newest_release)


def test_facts_about_an_older_release_are_marked() -> None:
    stale = {name for name in target_names() if load_target(name).is_stale}
    assert {"tensorrt-10", "tensorrt-11", "onnxruntime-webgpu", "onnxruntime-qnn"} <= stale
    assert not {"onnxruntime-cpu", "openvino-cpu", "tvm", "iree", "tract"} & stale
    assert not castsmith.Target("t", "", release="1.0").is_stale
    assert castsmith.Target("t", "", release="1.0", newest_release="1.1 (2026-11-25)").is_stale


def test_operators_of_a_type_that_a_device_has_in_part_run_on_its_fallback() -> None:
    """WebGPU has int64 for some operators; the other nodes of int64 run on the CPU."""
    webgpu = load_target("webgpu")
    assert (webgpu.runs_itself("Add", DataType.INT64, 21), webgpu.runs_itself("Mul", DataType.INT64, 21)) == (
        True,
        False,
    )
    assert webgpu.has_kernel("Mul", DataType.INT64, 21)
    assert not webgpu.strict().has_kernel("Mul", DataType.INT64, 21)
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (int64[2] x) => (int64[2] y) { a = Add (x, x) y = Mul (a, a) }""")
    (finding,) = (reported for reported in castsmith.check(model, target=webgpu) if reported.code == "leaves-device")
    assert finding.message.startswith(
        "1 of 2 nodes run on onnxruntime-cpu and not on the device, which has no Mul of int64"
    )


@pytest.mark.parametrize(("dtype", "group", "told"), [("float16", 2, True), ("float16", 1, False), ("float", 2, False)])
def test_grouped_convolutions_of_float16_in_tensorrt(dtype: str, group: int, told: bool) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 21]> g ({dtype}[1,4,8,8] x, {dtype}[4,{4 // group},3,3] w)
        => ({dtype}[1,4,6,6] y) {{ [c] y = Conv <group = {group}> (x, w) }}"""
    messages = [finding.message for finding in castsmith.check(onnx.parser.parse_model(text), target="trt")]
    assert messages == ["tensorrt-11 may not load this Conv: float16 in groups may have no kernel"] * told


def test_a_name_that_people_use_leads_to_a_target() -> None:
    assert {"trt", "tensorrt", "ort", "onnxruntime", "web", "webgpu", "android", "cuda", "openvino"} <= ALIASES.keys()
    assert {load_target(alias).name for alias in ALIASES} == set(ALIASES.values())
    assert load_target("coreml").name == "coreml"
    assert [aliases_of(name) for name in ("tensorrt-11", "tensorrt-10")] == [["tensorrt", "trt"], []]
    for family, number in (name.rsplit("-", 1) for name in target_names() if re.search(r"-\d+$", name)):
        newest = max(int(name.rsplit("-", 1)[1]) for name in target_names() if re.fullmatch(rf"{family}-\d+", name))
        assert ALIASES[family] == f"{family}-{newest}", number
    with pytest.raises(TargetError, match=r"^unknown target 'tensort'; did you mean 'tensorrt'\?$"):
        load_target("tensort")


def _native_cast(build: Builder, x: onnx_ir.Value, to: DataType, saturate: bool) -> onnx_ir.Value:
    node = onnx_ir.node("Cast", [x], {"to": int(to)} | ({} if saturate else {"saturate": 0}))
    build.nodes.append(node)
    node.outputs[0].type, node.outputs[0].shape = onnx_ir.TensorType(to), onnx_ir.Shape(["N"])
    return node.outputs[0]


WITNESSES = [
    (1.0625 + 2.0**-40, DataType.DOUBLE, DataType.FLOAT8E4M3FN, True),
    (480.0, DataType.FLOAT, DataType.FLOAT8E4M3FN, False),
    (495.0, DataType.INT16, DataType.FLOAT8E4M3FN, False),
    (61440.0, DataType.FLOAT, DataType.FLOAT8E5M2, False),
    (65535.0, DataType.UINT16, DataType.FLOAT8E5M2, False),
    (-0.0, DataType.FLOAT8E4M3FN, DataType.BOOL, True),
    (-0.0, DataType.FLOAT8E5M2, DataType.BOOL, True),
]


@pytest.mark.skipif(ONNXRUNTIME != (1, 32), reason="what the file says is of 1.32")
@pytest.mark.parametrize(("value", "source", "to", "saturate"), WITNESSES)
def test_onnxruntime_has_the_defects_that_its_file_states(value: float, source: DataType, to: DataType, saturate: bool):
    target = load_target("onnxruntime-cpu")
    assert target.wrong_cast(source, to, saturate=saturate, opset=26) is not None
    x = np.array([value], source.numpy())
    model = sequence_model(lambda build, v: _native_cast(build, v, to, saturate), source, 26)
    (native,) = run(session(model), {"x": x})
    assert native.tobytes() != cast(x, to, saturate=saturate).tobytes()


def test_saturating_casts_of_float_are_right():
    target = load_target("onnxruntime-cpu")
    assert target.wrong_cast(DataType.FLOAT, DataType.FLOAT8E4M3FN, saturate=True, opset=19) is None
    assert target.wrong_cast(DataType.FLOAT, DataType.FLOAT8E4M3FNUZ, saturate=True, opset=19) is None


@pytest.mark.parametrize("opset", range(7, 13))
@pytest.mark.parametrize("name", ["onnxruntime-cpu", "onnxruntime-android", "openvino-cpu"])
def test_half_precision_of_an_old_opset_is_left_alone(name: str, opset: int):
    text = f"""<ir_version: 7, opset_import: ["": {opset}]>
        g (float16[2,2] x) => (float16[2,2] y) {{
            a = MatMul (x, x)
            b = Gemm (a, x, x)
            y = Softmax (b)
        }}"""
    result = optimize(onnx.parser.parse_model(text), target=name)
    assert not result.rewrites
    assert not result.diagnostics


def test_android_has_the_kernels_of_the_processor_for_the_types_that_it_has():
    cpu, android = load_target("onnxruntime-cpu"), load_target("onnxruntime-android")
    assert android.kernels == {dtype: row for dtype, row in cpu.kernels.items() if dtype not in android.lacks}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("laks", ["float8e4m3fn"], "unknown key 'laks'; expected name, description, newest_opset"),
        ("newest_opset", "twenty", "newest_opset must be an integer of at least 1, not 'twenty'"),
        ("lacks", ["float9"], "'float9' is not an element type"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, key: str, value: object, said: str):
    path = tmp_path / "mine.json"
    data = {"name": "mine", "description": "mine", "newest_opset": 21, "newest_ir_version": 10, key: value}
    path.write_text(json.dumps(data))
    with pytest.raises(TargetError, match=f"mine.json does not describe a target: {said}"):
        load_target(str(path))


MEASURED = re.compile(
    r"run with each type|, run: |measured|were tried|that loads|as newest_opset|as kernels|python -m tests"
    r"|front end; those|release [\d.]+: |by hand|what casts, moves|kernels that ONNX Runtime|installed package"
)
"""How the evidence names what was run."""


def test_what_comes_from_documents_alone_is_said_to_be_unverified() -> None:
    for name in target_names():
        for key, text in load_target(name).evidence.items():
            assert bool(MEASURED.search(text)) != text.endswith("; unverified"), (name, key, text)
