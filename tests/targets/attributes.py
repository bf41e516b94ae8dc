"""Print the values of attributes with which a runtime loads an operator, and those with which it does not.

    nice python -m tests.targets.attributes openvino-cpu [OPERATOR ...]

Each model of the backend tests of ONNX with one node is loaded with each value of each attribute that is a text, with
one that means nothing, and with 0 and 1 for switches. A value is refused if models load without it, and none with it.
What is printed goes into the `attributes` of the target's file, with the values that load.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.defs
from onnx import ModelProto

from tests.graphs.backend import node_cases
from tests.soak.agreement import ENGINES

_MOST = 3
"""Models of an operator that are tried."""
_TEXTS = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "case_change_action": ("LOWER", "UPPER", "NONE"),
    "coordinate_transformation_mode": (
        *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
        *("tf_crop_and_resize", "tf_half_pixel_for_nn", "output_half_pixel"),
    ),
    "direction": ("forward", "reverse", "bidirectional", "LEFT", "RIGHT"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "mode": (
        *("constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic", "bilinear", "bicubic"),
        *("avg", "max", "DCR", "CRD", "circular"),
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "padding_mode": ("zeros", "border", "reflection"),
    "reduction": ("none", "add", "mul", "max", "min", "mean", "sum"),
    "approximate": ("none", "tanh"),
}
_NUMBERS = (
    *("align_corners", "antialias", "ceil_mode", "count_include_pad", "exclude_outside", "exclusive", "fmod"),
    *("ignore_index", "input_forget", "inverse", "is_causal", "keepdims", "layout", "linear_before_reset"),
    *("noop_with_empty_axes", "onesided", "reverse", "select_last_index", "storage_order"),
)


def _set(model: ModelProto, name: str, value: str | int) -> ModelProto:
    changed = ModelProto.FromString(model.SerializeToString())
    node = changed.graph.node[0]
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    return changed


def _values(schema: onnx.defs.OpSchema) -> Iterator[tuple[str, tuple[str, ...] | tuple[int, ...]]]:
    for name, attribute in schema.attributes.items():
        if attribute.type == onnx.defs.OpSchema.AttrType.STRING and name in _TEXTS:
            yield name, (*_TEXTS[name], "nonsense")
        elif attribute.type == onnx.defs.OpSchema.AttrType.INT and name in _NUMBERS:
            yield name, (0, 1)


def _valid(model: ModelProto) -> bool:
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except Exception:  # of onnx, which has many kinds
        return False
    return True


def main(target: str, operators: list[str]) -> None:
    load, folder = ENGINES[target], Path(tempfile.mkdtemp())

    def loads(model: ModelProto) -> bool:
        (path := folder / "model.onnx").write_bytes(model.SerializeToString())
        try:
            load(str(path))
        except Exception:  # of the runtime
            return False
        return True

    by_operator = defaultdict[str, list[ModelProto]](list)
    for name, case in sorted(node_cases("").items()):
        model = case.model
        if model is not None and len(model.graph.node) == 1 and "_expanded" not in name:
            by_operator[model.graph.node[0].op_type].append(model)
    table = dict[str, dict[str, list[str | int]]]()
    for op_type, models in by_operator.items():
        if (operators and op_type not in operators) or not onnx.defs.has(op_type):
            continue
        settings = [*_values(onnx.defs.get_schema(op_type))]
        tried = [model for model in models[: 4 * _MOST] if settings and loads(model)][:_MOST]
        for name, values in settings:
            taken, refused = list[str | int](), list[str | int]()
            for value in values:
                changed = [model for model in (_set(model, name, value) for model in tried) if _valid(model)]
                if changed:
                    (taken if any(map(loads, changed)) else refused).append(value)
            if refused:
                table.setdefault(op_type, {})[name] = taken
                print(op_type, name, "loads", taken, "not", refused, flush=True)
    print(json.dumps(table))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
