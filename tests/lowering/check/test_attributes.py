"""Values of attributes of which ONNX Runtime makes no kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx.defs
import onnx.parser
import onnx_ir
import pytest
from onnx import TensorProto, helper

import castsmith
from castsmith.lowering.check.attributes import attribute_fault
from castsmith.targets.target import load_target
from tests.lowering.check.test_registered import IMPORTS, errors, refusal
from tests.sampling import check_all
from tests.versions import ONNXRUNTIME

pytestmark = pytest.mark.usefixtures("untried")

VALUES = """g (float[1,1,4,4] x, uint8[2] u, uint8[2] v) => (float[1,1,{size},{size}] y, uint8[2] w) {{
    y = Resize <mode = "{mode}", antialias = {antialias}> (x, , s) w = BitShift <direction = "{direction}"> (u, v) }}"""


@pytest.mark.skipif(ONNXRUNTIME < (1, 32), reason="the target is ONNX Runtime 1.32")
@pytest.mark.parametrize("mode", ["nearest", "linear", "nonsense"])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("direction", ["LEFT", "left"])
def test_values_of_attributes_are_those_of_the_kernels(mode: str, antialias: int, direction: str):
    text = VALUES.format(size=8, mode=mode, antialias=antialias, direction=direction)
    model = onnx.parser.parse_model(IMPORTS + text)
    model.graph.initializer.append(onnx.helper.make_tensor("s", 1, [4], [1.0, 1.0, 2.0, 2.0]))
    assert bool(refusal(model)) == bool(errors(model, "onnxruntime-cpu"))


OF_TWO = "g (float[2,2] x, int64[2] l) => (float[2,2] y) {{ y = {} (x, l) }}"
OF_ROWS = "g (float[1,2] x) => (float[1,2] y) {{ y = {} (x) }}"
RESIZED = "g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[4] s = {{1, 1, 1, 1}}> {{ y = {} (x, , s) }}"
BODY = '<domain: "lib", opset_import: ["" : 20, "ai.onnx.ml" : 3]> f'
FAULTS: dict[str, tuple[str, str]] = {
    OF_ROWS.format('ai.onnx.ml.Normalizer <norm = "L3">'): (
        "Normalizer of ai.onnx.ml: its norm is 'L3', expected MAX, L1, L2",
        "",
    ),
    OF_ROWS.format("ai.onnx.ml.Scaler <scale = [1.0, 2.0]>"): (
        "Scaler of ai.onnx.ml: its offset has 0 entries and its scale 2",
        "",
    ),
    OF_TWO.format("ReverseSequence <batch_axis = 0>"): (
        "ReverseSequence: its batch_axis and time_axis are the same",
        "",
    ),
    OF_TWO.format("ReverseSequence <time_axis = 1>"): (
        "ReverseSequence: its batch_axis and time_axis are the same",
        "",
    ),
    RESIZED.format("Resize <antialias = 1>"): ("Resize: its antialias needs the mode linear or cubic", ""),
    RESIZED.format('Resize <antialias = 1, mode = "cubic">'): ("", ""),
    RESIZED.format("Resize"): ("", ""),
    "g (float[1,1,2] x, float[1,2,2] w) => (float[1,1,1,2] y) { y = RNN (x, w, w) }": (
        "RNN: it lacks the attribute hidden_size",
        "",
    ),
    "g (float[1,1,2] x, float[1,2,2] w) => (float[N,M,K,L] y) { y = RNN <hidden_size = 2, layout = 1> (x, w, w) }": (
        "RNN: its layout is 1, expected 0",
        "",
    ),
    "g (string[2] s) => (int64[2] y) { y = ai.onnx.ml.LabelEncoder <values_int64s = [1]> (s) }": (
        "LabelEncoder of ai.onnx.ml: it lacks the attribute keys_strings or keys_int64s or keys_floats or keys_tensor"
        " or classes_strings",
        "",
    ),
    "g (float[1,2] x, int64[1] t) => (float y) { y = NegativeLogLikelihoodLoss <ignore_index = 1> (x, t) }": (
        "",
        "NegativeLogLikelihoodLoss: its ignore_index is 1, expected none",
    ),
    # Attributes that are parameters of a function have the values of its call.
    f"""g (float[2,2] x, int64[2] l) => (float[2,2] y) {{ y = lib.f <b: int = 1, t: int = 0> (x, l) }}
    {BODY} <b, t> (x, l) => (y) {{ y = ReverseSequence <batch_axis: int = @b, time_axis: int = @t> (x, l) }}""": (
        "",
        "",
    ),
    f"""g (float[1,2] x) => (float[1,2] y) {{ y = lib.f <s: floats = [1.0, 2.0]> (x) }}
    {BODY} <s> (x) => (y) {{ y = ai.onnx.ml.Scaler <scale: floats = @s, offset = [1.0, 2.0]> (x) }}""": ("", ""),
    f"""g (float[1,2] x) => (float[1,2] y) {{ y = lib.f <s: string = "MAX"> (x) }}
    {BODY} <s> (x) => (y) {{ y = ai.onnx.ml.Normalizer <norm: string = @s> (x) }}""": ("", ""),
}
"""Models, each with the fault that it has for ONNX Runtime, and the one for OpenVINO, which has no kernels of its."""


def _check_faults(text: str) -> None:
    model = onnx.parser.parse_model(IMPORTS + text)
    for target, fault in zip(("onnxruntime-cpu", "openvino-cpu"), FAULTS[text], strict=True):
        faults = [each for each in castsmith.check(model, target=target) if each.code == "malformed-operator"]
        assert [each.message for each in faults] == ([f"{target} does not load {fault}"] if fault else [])
        if target == "onnxruntime-cpu" and ONNXRUNTIME >= (1, 32):
            assert bool(refusal(model)) == bool(fault)


def test_faults_of_attributes_word_for_word() -> None:
    check_all(_check_faults, FAULTS)


LEARNT = "g (float[1,2] x) => (float[N,M] y) {{ y = ai.onnx.ml.{} (x) }}"
REGRESSION = 'LinearRegressor <coefficients = [1.0, 2.0], intercepts = [0.0], post_transform = "{}">'
SUPPORT = """SVMRegressor <coefficients = [1.0], support_vectors = [1.0, 2.0], n_supports = 1, rho = [0.0],
    kernel_params = [1.0, 1.0, 1.0], kernel_type = "{}">"""


@pytest.mark.skipif(ONNXRUNTIME < (1, 32), reason="the target is ONNX Runtime 1.32")
def test_words_of_operators_of_machine_learning_are_those_of_the_kernels():
    words = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT", "MAX", "L1", "RBF", "LINEAR", "nonsense", "")
    wrong = []
    for operator in (REGRESSION, SUPPORT, 'Normalizer <norm = "{}">'):
        for word in words:
            model = onnx.parser.parse_model(IMPORTS + LEARNT.format(operator.format(word)))
            if bool(theirs := refusal(model)) != bool(ours := errors(model, "onnxruntime-cpu")):
                wrong.append(f"{operator.split()[0]} {word}: {theirs[:200] or 'loads'}; check: {ours}")
    assert not wrong


FLOAT, INT64, STRING, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL
_NODES: dict[str, Any] = {
    "nodes_falsenodeids": [2, 0, 0],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_nodeids": [0, 1, 2],
    "nodes_treeids": [0, 0, 0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
}
_LEAVES = {"ids": [0, 0], "nodeids": [1, 2], "treeids": [0, 0], "weights": [1.0, 2.0]}
_TERMS: dict[str, Any] = {
    "pool_int64s": [1, 2],
    "max_gram_length": 1,
    "min_gram_length": 1,
    "max_skip_count": 0,
    "mode": "TF",
    "ngram_counts": [0],
    "ngram_indexes": [0, 1],
}
SOUND: dict[str, tuple[list[tuple[int, list[int]]], list[int], dict[str, Any]]] = {
    "Scaler": ([(FLOAT, [1, 2])], [FLOAT], {"offset": [0.5, 0.5], "scale": [2.0, 2.0]}),
    "TreeEnsembleRegressor": (
        [(FLOAT, [1, 2])],
        [FLOAT],
        {**_NODES, **{f"target_{name}": value for name, value in _LEAVES.items()}, "n_targets": 1},
    ),
    "TreeEnsembleRegressor of double": (
        [(TensorProto.DOUBLE, [1, 2])],
        [FLOAT],
        {
            **{name: value for name, value in _NODES.items() if name != "nodes_values"},
            "nodes_values_as_tensor": helper.make_tensor("v", TensorProto.DOUBLE, [3], [0.5, 0.0, 0.0]),
            **{f"target_{name}": value for name, value in _LEAVES.items() if name != "weights"},
            "target_weights_as_tensor": helper.make_tensor("w", TensorProto.DOUBLE, [2], [1.0, 2.0]),
            "n_targets": 1,
        },
    ),
    "TreeEnsembleClassifier": (
        [(FLOAT, [1, 2])],
        [INT64, FLOAT],
        {**_NODES, **{f"class_{name}": value for name, value in _LEAVES.items()}, "classlabels_int64s": [0, 1]},
    ),
    "LinearClassifier": (
        [(FLOAT, [1, 2])],
        [INT64, FLOAT],
        {"coefficients": [1.0, 2.0], "intercepts": [0.5], "classlabels_ints": [0, 1]},
    ),
    "LabelEncoder": ([(STRING, [2])], [INT64], {"keys_strings": ["a", "b"], "values_int64s": [1, 2]}),
    "RegexFullMatch": ([(STRING, [2])], [BOOL], {"pattern": "a+"}),
    "TfIdfVectorizer": ([(INT64, [4])], [FLOAT], _TERMS),
    **{
        name: (
            [(FLOAT, [1, 1, 2]), (FLOAT, [1, gates * 2, 2]), (FLOAT, [1, gates * 2, 2])],
            [FLOAT],
            {"hidden_size": 2},
        )
        for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
    },
    "ReverseSequence": ([(FLOAT, [2, 2]), (INT64, [2])], [FLOAT], {"batch_axis": 1, "time_axis": 0}),
}
"""Operators whose kernels ask more of attributes than the schema: types and shapes of operands, types of results."""
UNSAID = {
    ("LinearClassifier", "classlabels_ints", "shorter"),
    ("LabelEncoder", "keys_strings", "shorter"),
    ("LabelEncoder", "values_int64s", "shorter"),
}
"""What `check` leaves to the runtime."""


def _changed(attributes: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the attributes as they are, without each of them, and with each list shorter by an entry."""
    yield "", "", attributes
    for name, value in attributes.items():
        yield name, "left out", {key: other for key, other in attributes.items() if key != name}
        if isinstance(value, list) and len(value) > 1:  # pyright: ignore[reportUnknownArgumentType]
            yield name, "shorter", {**attributes, name: value[:-1]}
    if "time_axis" in attributes:
        yield "time_axis", "the other", {**attributes, "time_axis": attributes["batch_axis"]}


def _check_sound(case: str) -> None:
    operands, results, sound = SOUND[case]
    operator = case.partition(" of ")[0]
    domain = "ai.onnx.ml" if onnx.defs.has(operator, 3, "ai.onnx.ml") else ""
    x = [helper.make_tensor_value_info(f"x{at}", *each) for at, each in enumerate(operands)]
    y = [helper.make_tensor_value_info(f"y{at}", dtype, None) for at, dtype in enumerate(results)]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    for name, how, attributes in _changed(sound):
        names = [value.name for value in x], [value.name for value in y]
        node = helper.make_node(operator, *names, domain=domain, **attributes)
        model = helper.make_model(helper.make_graph([node], "g", x, y), ir_version=10, opset_imports=opsets)
        theirs, ours = refusal(model), errors(model, "onnxruntime-cpu")
        assert bool(ours) == (bool(theirs) and (operator, name, how) not in UNSAID), (name, how, theirs, ours)


@pytest.mark.skipif(ONNXRUNTIME < (1, 32), reason="the target is ONNX Runtime 1.32")
def test_attributes_that_kernels_ask_for():
    check_all(_check_sound, SOUND)


LEARNED = (("TreeEnsembleClassifier", "class_"), ("TreeEnsembleRegressor", "target_"))
OPTIONAL = {"nodes_hitrates", "nodes_missing_value_tracks_true"}


def test_lists_of_trees_that_are_as_long_as_each_other() -> None:
    """All lists that the schema has of nodes and of leaves, but for those that a model may leave out."""
    target = load_target("onnxruntime-cpu")
    for op_type, leaves in LEARNED:
        schema = onnx.defs.get_schema(op_type, 3, "ai.onnx.ml")
        for prefix in ("nodes_", leaves):
            names = {name for name in schema.attributes if name.startswith(prefix) and not name.endswith("_as_tensor")}
            for longer in names:
                attributes = [onnx_ir.AttrInt64s(name, [0] * (1 + (name == longer))) for name in sorted(names)]
                attributes.append(onnx_ir.AttrInt64("n_targets", 1))
                fault = attribute_fault(onnx_ir.Node("ai.onnx.ml", op_type, [], attributes), target)
                assert (fault is None) == (longer in OPTIONAL), longer
                assert fault is None or fault.endswith(f"has 1 entries and its {longer} 2")


ONE_OF: dict[str, str] = {
    "GRU": "hidden_size",
    "LSTM": "hidden_size",
    "RNN": "hidden_size",
    "RegexFullMatch": "pattern",
    "TfIdfVectorizer": "pool_int64s pool_strings",
    "TreeEnsemble": "n_targets",
    "TreeEnsembleRegressor": "n_targets",
    "LabelEncoder": "keys_strings keys_int64s keys_floats keys_tensor classes_strings",
}


def test_attributes_of_which_one_is_needed() -> None:
    target = load_target("onnxruntime-cpu")
    for op_type, names in ONE_OF.items():
        domain = "ai.onnx.ml" if op_type.startswith(("Tree", "Label")) else ""
        bare = attribute_fault(onnx_ir.Node(domain, op_type, []), target)
        assert bare == f"it lacks the attribute {names.replace(' ', ' or ')}"
        for name in names.split():
            node = onnx_ir.Node(domain, op_type, [], [onnx_ir.AttrInt64(name, 1)])
            assert attribute_fault(node, target) is None, (op_type, name)
