"""What is ours in each integration, beside stand-ins for the tool: the tests of the tools themselves need them.

A stand-in has the names that the module imports. Its classes keep what they are made of.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.integrations import pytorch
from castsmith.targets.target import target_names

SQUARES = """<ir_version: 10, opset_import: ["": 21]>
g (float[4] x) => (float[4] y) { [square] a = Mul (x, x) [root] b = Sqrt (a) [last] y = Neg (b) }"""
CHAIN = """<ir_version: 10, opset_import: ["": 21]>
g (float[4] x) => (float[4] y) { [there] a = Cast <to = 11> (x) [back] b = Cast <to = 1> (a) [root] y = Sqrt (b) }"""


class Record:
    """Keeps what it is made of."""

    def __init__(self, *words: Any, **facts: Any) -> None:
        self.words = words
        self.__dict__.update(facts)


def imported(monkeypatch: pytest.MonkeyPatch, name: str, tools: dict[str, dict[str, Any]]) -> Any:
    """Return the module of `castsmith.integrations`, imported beside the stand-ins, which the test alone sees."""
    for tool, contents in tools.items():
        module = ModuleType(tool)
        module.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, tool, module)
    full = f"castsmith.integrations.{name}"
    monkeypatch.delitem(sys.modules, full, raising=False)
    module = importlib.import_module(full)
    monkeypatch.setitem(sys.modules, full, module)
    monkeypatch.delitem(sys.modules, full)
    return module


def loaded(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


# PyTorch.


def test_a_program_gets_the_model_that_each_function_makes() -> None:
    released: list[onnx_ir.Model] = []

    def program(text: str) -> Any:
        new = SimpleNamespace(model=loaded(text))
        new.release = lambda: released.append(new.model)
        return new

    optimized, converted, fitted = program(CHAIN), program(SQUARES), program(SQUARES)
    assert pytorch.optimize(optimized, passes=["simplify-casts"]) is optimized
    assert [node.op_type for node in optimized.model.graph] == ["Sqrt"]
    assert pytorch.convert(converted, to="float16", io="convert", keep=["Sqrt"]) is converted
    assert [value.dtype for value in converted.model.graph.inputs] == [DataType.FLOAT16]
    assert pytorch.fit(fitted, target="onnxruntime-cpu", exact=True) is fitted
    assert released == [optimized.model, converted.model, fitted.model]
    with pytest.raises(castsmith.CastsmithError, match="nowhere"):
        pytorch.fit(fitted, target="nowhere")


# AutoCast.


def test_the_rule_of_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = {"modelopt.onnx.autocast.nodeclassifier": {"NodeRuleBase": object}}
    tools = {name: {} for name in ("modelopt", "modelopt.onnx", "modelopt.onnx.autocast")} | tool
    rule_of = imported(monkeypatch, "autocast", tools).BoundsRule
    model = loaded(SQUARES)
    nodes = onnx_ir.to_proto(model).graph.node

    def kept(rule: Any) -> list[bool]:
        return [rule._check_inner(node) for node in nodes]

    wide = rule_of(model, ranges={"x": (-1000, 1000)})
    assert wide.values == {"a": "a reaches 1e+06 (proven), beyond float16"}
    assert (wide.results, kept(wide)) == ({}, [True, True, False])
    assert kept(rule_of(model, ranges={"x": (-1, 1)})) == [False] * 3
    assert kept(rule_of(model, to="bfloat16", ranges={"x": (-1000, 1000)})) == [False] * 3
    inputs = [{"x": np.array([1, 2, 3, 300], np.float32)}]
    measured = rule_of(model, inputs=iter(inputs))
    assert measured.values == {"a": "a reaches 90000 (measured), beyond float16"}
    assert kept(measured) == [True, True, False]
    fits = [{"x": np.ones(4, np.float32)}]
    assert kept(rule_of(model, ranges={"x": (-1000, 1000)}, inputs=fits)) == [False] * 3  # what is measured counts
    # From 65520 on, which float16 rounds to infinity, what is measured counts.
    negated = loaded('<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Neg (x) }')
    for limit, proven in ((65519.99609375, {}), (65520.0, {"x", "y"})):
        ranges = {"x": (-limit, limit)}
        assert {*rule_of(negated, ranges=ranges).values} == {*proven}
        assert rule_of(negated, ranges=ranges, inputs=fits).values == {}
    sums = loaded("""<ir_version: 10, opset_import: ["": 21]>
        g (float[4, 64] x) => (float[4, 1] y) <int64[1] axis = {1}> { [mean] y = ReduceMean (x, axis) }""")
    inside = rule_of(sums, inputs=[{"x": np.full((4, 64), 3000, np.float32)}])
    assert inside.values == {}
    assert inside.results == {"y": "y fits float16, but the sum inside reaches 192000 (measured)"}
    assert inside._check_inner(onnx_ir.to_proto(sums).graph.node[0])
    assert rule_of(sums, to="bfloat16", inputs=[{"x": np.full((4, 64), 3000, np.float32)}]).results == {}


# Optimum.

OPTIMUM = {
    "optimum": {},
    "optimum.commands": {},
    "optimum.commands.base": {"BaseOptimumCLICommand": Record, "CommandInfo": Record},
}


@pytest.mark.usefixtures("one_process")
def test_the_command_of_optimum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = imported(monkeypatch, "optimum", OPTIMUM)
    source, output = tmp_path / "exported", tmp_path / "exported" / "out"
    (source / "deep").mkdir(parents=True)
    weights = onnx.helper.make_tensor("w", 1, [512], [0.5] * 512)
    for name in ("model", "deep/model"):
        model = onnx.parser.parse_model(SQUARES.replace("float[4]", "float[512]").replace("Neg (b)", "Mul (b, w)"))
        model.graph.initializer.append(weights)
        path = source / f"{name}.onnx"
        onnx.save(model, path, save_as_external_data=True, location=f"{path.name}_data")
    (source / "deep" / "config.json").write_text("{}")
    parser = argparse.ArgumentParser()
    module.CastsmithCommand.parse_args(parser)

    def run(*words: str) -> None:
        command = module.CastsmithCommand()
        command.args = parser.parse_args(["--onnx_model", str(source), "-o", str(output), *words])
        command.run()

    for _ in range(2):  # what an earlier run left in the folder is not taken for its input
        run(
            "--to",
            "float16",
            "--target",
            "onnxruntime-cuda",
            "--keep",
            "root",
            "--keep",
            "op:Mul",
            "--max_error",
            "0.5",
        )
        files = sorted(str(path.relative_to(output)) for path in output.rglob("*") if path.is_file())
        assert files == ["deep/config.json", "deep/model.onnx", "model.onnx"]
    kept = onnx.load(output / "model.onnx").graph.initializer
    run("--to", "float16")
    halves = onnx.load(output / "model.onnx").graph.initializer
    assert (kept[0].data_type, halves[0].data_type) == (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    with pytest.raises(SystemExit) as ended:
        run("--target", "webgpuu")
    assert ended.value.code == 2
    with pytest.raises(SystemExit, match=r"optimum-cli: --onnx_model .*none is no folder"):
        run("--onnx_model", str(source / "none"))
    run("--onnx_model", str(output), "-o", str(output))  # in place
    path = source / "model.onnx"
    assert module.slim(path, to="float16") == module.slim(onnx.load(path), to="float16")
    assert module.slim(path, keep_output_types=True).graph.initializer[0].data_type == onnx.TensorProto.FLOAT
    names = module.OnnxCommand.COMMAND.name, module.OnnxCommand.SUBCOMMANDS[0].words[0]
    assert names == ("onnx", "castsmith")


# Olive.


def _together(*words: Any) -> tuple[Any, ...]:
    return words


OLIVE: dict[str, dict[str, Any]] = {
    "olive": {},
    "olive.passes.onnx": {},
    "olive.hardware": {},
    "olive.hardware.accelerator": {"AcceleratorSpec": Record},
    "olive.model": {"ONNXModelHandler": Record},
    "olive.model.utils": {"resolve_onnx_path": Path},
    "olive.package_config": {"OlivePackageConfig": Record},
    "olive.passes": {"Pass": object},
    "olive.passes.onnx.common": {
        "get_external_data_config": lambda: {"external": 1},
        "ir_model_to_olive_model": _together,
    },
    "olive.passes.pass_config": {"BasePassConfig": Record, "PassConfigParam": Record},
}


@pytest.fixture
def olive(monkeypatch: pytest.MonkeyPatch) -> Any:
    return imported(monkeypatch, "olive", OLIVE)


def test_the_parameters_of_olives_passes(olive: Any, tmp_path: Path) -> None:
    targets = target_names()
    providers = " ".join(sorted(name.removesuffix("ExecutionProvider") for name in olive._TARGETS))
    assert providers == "CPU CUDA Dml Js MIGraphX NvTensorRTRTX OpenVINO QNN VitisAI WebGpu"
    for provider, target in olive._TARGETS.items():
        config = olive.CastsmithOptimize._default_config(Record(execution_provider=provider))
        assert config["target"].default_value == target
        assert target in targets
    assert not olive.CastsmithOptimize.is_accelerator_agnostic(None)
    defaults = {
        kind.__name__: {
            name: value if isinstance(value, int) else value.default_value
            for name, value in kind._default_config(Record(execution_provider="none")).items()
        }
        for kind in (olive.CastsmithOptimize, olive.CastsmithConvert, olive.CastsmithFit)
    }
    shared = {"target": None, "options": None, "external": 1}
    lists = dict.fromkeys(("op_block_list", "op_include_list", "node_block_list", "node_include_list"))
    assert defaults == {
        "CastsmithOptimize": shared,
        "CastsmithConvert": {**shared, "to": "float16", "keep_io_types": False, "max_error": None, **lists},
        "CastsmithFit": {**shared, "exact": False, "max_error": None},
    }
    path = tmp_path / "package.json"
    path.write_text('{"passes": {"other": 1}, "more": 2}')
    olive.OlivePackageConfig.get_default_config_path = lambda: str(path)
    config = olive.package_config()
    assert (config["more"], config["passes"].pop("other")) == (2, 1)
    precisions = {name: entry.pop("supported_precisions") for name, entry in config["passes"].items()}
    assert precisions == {"CastsmithOptimize": ["*"], "CastsmithConvert": ["fp16", "bf16"], "CastsmithFit": ["*"]}
    assert config["passes"]["CastsmithFit"] == {
        "module_path": "castsmith.integrations.olive.CastsmithFit",
        "supported_providers": ["*"],
        "supported_accelerators": ["*"],
    }


def test_a_pass_of_olive_calls_its_function(olive: Any, tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[4, 4] x) => (float[4, 4] y) {
        [first] a = MatMul (x, x) [second] b = MatMul (a, a) [last] y = Softmax (b) }""")
    model.graph.node[2].name = "last, one"  # a comma separates patterns
    onnx.save(model, tmp_path / "m.onnx")

    def halves(kind: str, **options: Any) -> set[str]:
        made = getattr(olive, kind)()
        values = dict.fromkeys(("target", "options", *made._own_config())) | options
        config = SimpleNamespace(model_dump=lambda: values)
        result, path, passed = made._run_for_config(
            Record(model_path=str(tmp_path / "m.onnx")), config, str(tmp_path / "o")
        )
        assert (path, passed) == (tmp_path / "o" / "m.onnx", config)
        graph = onnx.shape_inference.infer_shapes(onnx_ir.to_proto(result), data_prop=True).graph
        values = [value for value in (*graph.value_info, *graph.output) if value.name in ("a", "b", "y")]
        return {value.name for value in values if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16}

    def converted(**options: Any) -> set[str]:
        return halves("CastsmithConvert", to="float16", keep_io_types=True, **options)

    assert halves("CastsmithConvert", to="float16", keep_io_types=False) == {"a", "b", "y"}
    assert converted() == converted(node_block_list=["last, one"]) == {"a", "b"}
    assert converted(op_block_list=["MatMul", "Conv"]) == converted(options={"keep": ["*"]}) == set()
    assert converted(op_include_list=["MatMul"]) == {"a", "b"}
    assert converted(node_block_list=["second"]) == converted(node_include_list=["first"]) == {"a"}
    for options, message in (
        ({"op_block_list": ["MatMul"], "op_include_list": ["MatMul"]}, "`op_include_list` and `op_block_list` exclude"),
        ({"node_block_list": ["a"], "node_include_list": ["b"]}, "`node_include_list` and `node_block_list` exclude"),
        ({"node_block_list": ["absent"]}, "matches no node"),
    ):
        with pytest.raises(castsmith.OptionError, match=message):
            converted(**options)
    with pytest.raises(castsmith.OptionError, match="CastsmithFit needs a `target`"):
        halves("CastsmithFit")
    assert halves("CastsmithFit", target="onnxruntime-cpu", exact=True) == set()
    assert halves("CastsmithOptimize", target="onnxruntime-cpu") == set()
    model = loaded(SQUARES)
    assert olive._keep_patterns(model, ["Mul", "Conv"], None, ["a*b"], None) == ["op:Mul", "name:a[*]b"]
    assert olive._keep_patterns(model, None, ["Mul"], None, ["square"]) == [
        "op:Sqrt",
        "op:Neg",
        "name:root",
        "name:last",
    ]
    assert olive._keep_patterns(model, None, None, ["a,b"], None) == ["name:a?b"]


# Model Explorer.

EXPLORER: dict[str, dict[str, Any]] = {
    "model_explorer": {},
    "model_explorer.config_editor": {"TextInputConfigEditor": Record},
    "model_explorer.graph_builder": dict.fromkeys(
        ("Graph", "KeyValue", "GraphNodeStyle", "IncomingEdge", "MetadataItem", "GraphNode"), Record
    ),
    "model_explorer.node_data_builder": {"NodeDataResult": Record, "GraphNodeData": Record},
    "model_explorer.node_data_provider": {
        "NodeDataProvider": object,
        **dict.fromkeys(
            (
                "NodeDataProviderMetadata", "NodeDataProviderFilter", "GetConfigEditorsResult",
                "NodeDataProviderResult",
            ),
            Record,
        ),
    },
    "model_explorer.adapter": {"Adapter": object, "AdapterMetadata": Record},
}  # fmt: skip


@pytest.fixture
def explorer(monkeypatch: pytest.MonkeyPatch) -> Any:
    tools = {name: dict(contents) for name, contents in EXPLORER.items()}
    for name in tools:
        if "." in name:
            module = ModuleType(name)
            module.__dict__.update(tools[name])
            tools["model_explorer"][name.partition(".")[2]] = module
    return imported(monkeypatch, "model_explorer.main", tools)


def test_the_differences_in_the_explorer(explorer: Any, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(CHAIN), tmp_path / "a.onnx")
    castsmith.optimize(tmp_path / "a.onnx").save(tmp_path / "b.onnx")
    file = tmp_path / "d.json"
    file.write_text(json.dumps({"a": "a.onnx", "b": "b.onnx"}))
    before, after = explorer.DiffAdapter().convert(str(file), {})["graphs"]
    assert (before.words[0], after.words[0]) == ("before g", "after g")
    nodes = before.words[1]
    assert [node.words for node in nodes] == [
        ("x", "Input"), ("a", "Cast"), ("b", "Cast"), ("y", "Sqrt"), ("output y", "Output"),
    ]  # fmt: skip
    assert [[edge.words[0] for edge in node.incomingEdges] for node in nodes] == [[], ["x"], ["a"], ["b"], ["y"]]
    assert [node.style.backgroundColor for node in nodes[1:3]] == ["#ffcdd2"] * 2
    assert [node.style and node.style.backgroundColor for node in after.words[1][1:2]] == ["#fff3c4"]
    assert [[attribute.words[0] for attribute in node.attrs] for node in nodes[1:4]] == [["node", "change"]] * 3
    assert nodes[1].attrs[1].words[1].startswith("node-removed: a = Cast")
    (item,) = nodes[1].outputsMetadata
    assert item.words[0] == "0"
    assert next(pair.words for pair in item.words[1]) == ("__tensor_tag", "a")
    for text in ("[]", "{", '{"a": "a.onnx"}', '{"a": 1, "b": 2}'):
        file.write_text(text)
        with pytest.raises(castsmith.ModelError, match="choose another adapter for this file"):
            explorer.DiffAdapter().convert(str(file), {})


def test_what_is_known_of_nodes_in_the_explorer(explorer: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(SQUARES), path)
    provider = explorer.Provider()

    def run(kind: str, graph: Any = None, **settings: str) -> dict[str, tuple[Any, str]]:
        answer = provider.run(f"castsmith_{kind}", str(path), "", settings, graph)
        assert answer.result.name == f"Castsmith {kind}"
        return {key: (result.value, result.bgColor) for key, result in answer.result.results.items()}

    green, yellow, red, blue = "#c8e6c9", "#fff3c4", "#ffcdd2", "#bbdefb"
    assert run("bounds", ranges=" x=-1000:1000 ,") == {
        "x": (1000, green), "a": (1e6, red), "b": (1000, green), "y": (1000, green),
    }  # fmt: skip
    assert run("bounds", ranges="x=-1000:1000", to="bfloat16")["a"] == (1e6, green)
    assert run("bounds", ranges="x=0.000001:0.00001")["x"] == (0.00001, blue)
    assert run("bounds", ranges="x=0:0")["x"] == (0, green)
    assert run("bounds") == {}
    assert run("precision", to="float16", ranges="x=-1:1") == dict.fromkeys("aby", ("float16", yellow))
    assert run("precision", to="bfloat16")["a"] == ("bfloat16", yellow)
    tag = SimpleNamespace(key="__tensor_tag", value="a")
    other = SimpleNamespace(key="type", value="b")
    node = SimpleNamespace(id="n7", outputsMetadata=[SimpleNamespace(attrs=[other, tag])])
    empty = SimpleNamespace(id="n8", outputsMetadata=[])
    assert run("bounds", SimpleNamespace(nodes=[node, empty]), ranges="x=-2:2").keys() == {"n7"}
    onnx.save(onnx.parser.parse_model(CHAIN), path)
    assert run("rewrites") == {"b": ("collapse-chain", yellow)}
    for settings in ({"ranges": "x"}, {"ranges": "x=a:1"}):
        answer = provider.run("castsmith_bounds", str(path), "", settings, None)
        assert answer.error.endswith("is not understood; write NAME=LOW:HIGH.")
    editors = {
        kind: provider.get_config_editors(f"castsmith_{kind}").words[0] for kind in ("bounds", "precision", "rewrites")
    }
    assert {kind: [editor.id for editor in each] for kind, each in editors.items()} == {
        "bounds": ["ranges", "to"], "precision": ["ranges", "to", "target"], "rewrites": ["target"],
    }  # fmt: skip
    assert [metadata.id for metadata in explorer.Provider.metadata] == [f"castsmith_{kind}" for kind in editors]
