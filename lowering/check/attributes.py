"""Attributes with which ONNX Runtime makes no kernel, though the standard's schema allows them."""

from __future__ import annotations

import onnx_ir

from castsmith.targets.target import Target

_NODES = tuple(
    f"nodes_{name}" for name in ("falsenodeids", "featureids", "modes", "nodeids", "treeids", "truenodeids", "values")
)
_LEAVES = ("ids", "nodeids", "treeids", "weights")
_EVEN: dict[str, tuple[tuple[str, ...], ...]] = {
    "Scaler": (("offset", "scale"),),
    "TreeEnsembleClassifier": (_NODES, tuple(f"class_{name}" for name in _LEAVES)),
    "TreeEnsembleRegressor": (_NODES, tuple(f"target_{name}" for name in _LEAVES)),
}
"""Attributes of operators of ai.onnx.ml that must have as many entries as each other."""
_NEEDED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("GRU", "LSTM", "RNN"), ("hidden_size",)),
    "LabelEncoder": ("keys_strings", "keys_int64s", "keys_floats", "keys_tensor", "classes_strings"),
    "RegexFullMatch": ("pattern",),
    "TfIdfVectorizer": ("pool_int64s", "pool_strings"),
    **dict.fromkeys(("TreeEnsemble", "TreeEnsembleRegressor"), ("n_targets",)),
}
"""Attributes of which an operator needs one, though its schema calls each optional."""


def attribute_fault(node: onnx_ir.Node, target: Target) -> str | None:
    """Return what is wrong with the values of the node's attributes for the target."""
    for name, allowed in target.attributes.get(node.op_type, {}).items():
        attribute = node.attributes.get(name)
        if attribute is None or attribute.is_ref() or attribute.value in allowed:
            continue
        listed = (", " if attribute.type == onnx_ir.AttributeType.STRING else " or ").join(map(str, allowed))
        return f"its {name} is {attribute.value!r}, expected {listed or 'none'}"
    return _fault_of_kernel(node) if target.registry else None


def _fault_of_kernel(node: onnx_ir.Node) -> str | None:
    """Return what is wrong with the attributes for the kernel of ONNX Runtime."""
    attributes, needed = node.attributes, _NEEDED.get(node.op_type, ())
    if needed and not any(name in attributes for name in needed):
        return f"it lacks the attribute {' or '.join(needed)}"
    if any(attribute.is_ref() for attribute in attributes.values()):  # known where the function is called
        return None
    if attributes.get_int("antialias", 0) and attributes.get_string("mode", "nearest") == "nearest":
        return "its antialias needs the mode linear or cubic"
    if attributes.get_int("batch_axis", 1) == attributes.get_int("time_axis", 0):
        return "its batch_axis and time_axis are the same"
    return _uneven(node)


def _uneven(node: onnx_ir.Node) -> str | None:
    for names in _EVEN.get(node.op_type, ()):
        names = tuple(name for name in names if f"{name}_as_tensor" not in node.attributes)
        lengths = {name: _length(node, name) for name in names}
        if len(set(lengths.values())) > 1:
            fewest, most = min(names, key=lengths.__getitem__), max(names, key=lengths.__getitem__)
            return f"its {fewest} has {lengths[fewest]} entries and its {most} {lengths[most]}"
    if node.op_type == "LinearClassifier" and not _length(node, "intercepts"):
        return "its intercepts are empty"
    return None


def _length(node: onnx_ir.Node, name: str) -> int:
    return len(node.attributes[name].value) if name in node.attributes else 0
