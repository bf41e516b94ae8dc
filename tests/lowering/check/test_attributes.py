"""Values of attributes of which ONNX Runtime makes no kernel."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

from tests.lowering.check.test_registered import IMPORTS, errors, refusal
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
