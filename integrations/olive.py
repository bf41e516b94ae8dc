"""Passes of Microsoft Olive: `CastsmithOptimize`, `CastsmithConvert` and `CastsmithFit`.

    python -m castsmith.integrations.olive > package.json
    olive run --config workflow.json --package-config package.json

Each pass calls the function of its name. Options have Olive's names where Olive has them, and the function's otherwise;
what a pass does not list, `options` takes by name.
"""

# The tool is not installed where types are checked: what it leaves unknown is not our error.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import glob
import json
import logging
import sys
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx_ir
from olive.hardware.accelerator import AcceleratorSpec
from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.package_config import OlivePackageConfig
from olive.passes import Pass
from olive.passes.onnx.common import get_external_data_config, ir_model_to_olive_model
from olive.passes.pass_config import BasePassConfig, PassConfigParam

import castsmith
from castsmith.ir.walks import all_nodes
from castsmith.numerics.errors import OptionError

_logger = logging.getLogger(f"olive.{__name__}")
"""Below Olive's logger, so that its settings hold."""
_TARGETS = {
    "CPUExecutionProvider": "onnxruntime-cpu",
    "CUDAExecutionProvider": "onnxruntime-cuda",
    "DmlExecutionProvider": "onnxruntime-directml",
    "JsExecutionProvider": "onnxruntime-webgpu",
    "MIGraphXExecutionProvider": "onnxruntime-migraphx",
    "NvTensorRTRTXExecutionProvider": "onnxruntime-tensorrt-rtx",
    "OpenVINOExecutionProvider": "onnxruntime-openvino",
    "QNNExecutionProvider": "onnxruntime-qnn",
    "VitisAIExecutionProvider": "vitis-ai",
    "WebGpuExecutionProvider": "onnxruntime-webgpu",
}
"""The target of each execution provider that has one."""


def _parameter(kind: object, default: object, description: str) -> PassConfigParam:
    return PassConfigParam(type_=kind, default_value=default, description=description)


_SELECTIONS = {
    "op_block_list": _parameter(list[str], None, "Operators that keep their type."),
    "op_include_list": _parameter(list[str], None, "The operators to convert; the others keep their type."),
    "node_block_list": _parameter(list[str], None, "Names of nodes that keep their type."),
    "node_include_list": _parameter(list[str], None, "Names of the nodes to convert; the others keep their type."),
}


class _CastsmithPass(Pass):
    """What the three passes share."""

    @staticmethod
    def is_accelerator_agnostic(accelerator_spec: AcceleratorSpec) -> bool:
        del accelerator_spec
        return False  # the target follows from it

    @classmethod
    def _default_config(cls, accelerator_spec: AcceleratorSpec) -> dict[str, PassConfigParam]:
        target = _TARGETS.get(str(accelerator_spec.execution_provider))
        return {
            "target": _parameter(str, target, "The runtime, as `castsmith targets` lists them; None for none."),
            **cls._own_config(),
            "options": _parameter(dict[str, Any], None, "Other options of the function, by name."),
            **get_external_data_config(),
        }

    @classmethod
    @abstractmethod
    def _own_config(cls) -> dict[str, PassConfigParam]:
        """Return the parameters besides those that all share."""

    @abstractmethod
    def _apply(self, model: onnx_ir.Model, options: dict[str, Any]) -> castsmith.Result:
        """Return the result for a model that may be changed."""

    def _run_for_config(
        self, model: ONNXModelHandler, config: BasePassConfig, output_model_path: str
    ) -> ONNXModelHandler:
        values = config.model_dump()
        options = {name: values[name] for name in ("target", *self._own_config()) if values[name] is not None}
        result = self._apply(castsmith.load(model.model_path), {**options, **(values["options"] or {})})
        _logger.info("%s: %s", type(self).__name__, result.summary())
        for finding in result.diagnostics:
            _logger.warning("%s at %s: %s; %s", finding.code, finding.site, finding.message, finding.help)
        path = resolve_onnx_path(output_model_path, Path(model.model_path).name)
        return ir_model_to_olive_model(result.model, path, config)


class CastsmithOptimize(_CastsmithPass):
    """Fix element types and remove casts without changing a value, with `castsmith.optimize`."""

    @classmethod
    def _own_config(cls) -> dict[str, PassConfigParam]:
        return {}

    def _apply(self, model: onnx_ir.Model, options: dict[str, Any]) -> castsmith.Result:
        return castsmith.optimize(model, in_place=True, **options)


class CastsmithConvert(_CastsmithPass):
    """Convert a model to float16 or bfloat16, with `castsmith.convert`; takes the place of `OnnxFloatToFloat16`."""

    @classmethod
    def _own_config(cls) -> dict[str, PassConfigParam]:
        return {
            "to": _parameter(str, "float16", "float16, bfloat16 or float."),
            "keep_io_types": _parameter(
                bool | list[str], False, "Leave the types of inputs and outputs, or of those named."
            ),
            "max_error": _parameter(float, None, "The relative error that outputs may have."),
            **_SELECTIONS,
        }

    def _apply(self, model: onnx_ir.Model, options: dict[str, Any]) -> castsmith.Result:
        selections = {name: options.pop(name, None) for name in _SELECTIONS}
        keep = [*options.pop("keep", ()), *_keep_patterns(model, **selections)]
        return castsmith.convert(model, in_place=True, keep=keep, **options)


class CastsmithFit(_CastsmithPass):
    """Make a model run on the target by the cheapest way, with `castsmith.fit`."""

    @classmethod
    def _own_config(cls) -> dict[str, PassConfigParam]:
        return {
            "exact": _parameter(bool, False, "Allow only results that are the same, bit for bit."),
            "max_error": _parameter(float, None, "The relative error that outputs may have."),
        }

    def _apply(self, model: onnx_ir.Model, options: dict[str, Any]) -> castsmith.Result:
        if "target" not in options:
            raise OptionError("CastsmithFit needs a `target`: there is none for this execution provider.")
        return castsmith.fit(model, **options)


def _keep_patterns(
    model: onnx_ir.Model,
    op_block_list: list[str] | None,
    op_include_list: list[str] | None,
    node_block_list: list[str] | None,
    node_include_list: list[str] | None,
) -> list[str]:
    """Return the patterns of `castsmith.convert` that keep the nodes that Olive's lists leave in float."""
    nodes = list(all_nodes(model))
    operators = dict.fromkeys(node.op_type for node in nodes)
    names = dict.fromkeys(node.name or node.outputs[0].name or "" for node in nodes if node.name or node.outputs)
    # As Olive does, ignore operators that the model lacks: recipes list those of many models.
    chosen = _chosen("op", operators, filter(operators.__contains__, op_block_list or ()), op_include_list)
    return [*chosen, *_chosen("node", names, node_block_list or (), node_include_list)]


def _chosen(kind: str, present: Iterable[str], blocked: Iterable[str], included: list[str] | None) -> list[str]:
    blocked = list(blocked)
    if included:
        if blocked:
            raise OptionError(f"`{kind}_include_list` and `{kind}_block_list` exclude each other: pass one of them.")
        blocked = [name for name in present if name not in set(included)]
    # A pattern has no way to write a comma.
    prefix = "op" if kind == "op" else "name"
    return [f"{prefix}:{glob.escape(name).replace(',', '?')}" for name in blocked]


def package_config() -> Mapping[str, object]:
    """Return Olive's own package configuration with the passes of Castsmith, as `--package-config` takes it."""
    config = json.loads(Path(OlivePackageConfig.get_default_config_path()).read_text(encoding="utf-8"))
    for kind, precisions in ((CastsmithOptimize, ["*"]), (CastsmithConvert, ["fp16", "bf16"]), (CastsmithFit, ["*"])):
        config["passes"][kind.__name__] = {
            "module_path": f"castsmith.integrations.olive.{kind.__name__}",
            "supported_providers": ["*"],
            "supported_accelerators": ["*"],
            "supported_precisions": precisions,
        }
    return config


if __name__ == "__main__":
    json.dump(package_config(), sys.stdout, indent=2)
