"""A refusal names the operators of the user's file."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir

import castsmith
from castsmith.ir.records import Diagnostic, NodeItem, Rewrite, Severity, Site, TextItem, ValueItem
from castsmith.lowering.fit.blame import in_users_words
from castsmith.targets.target import Target
from tests.lowering.fit.models import HEAD
from tests.sampling import check_all

NO_ERF = Target(
    "no-erf",
    newest_opset=22,
    newest_ir_version=10,
    types=["float", "int32", "int64", "uint8", "bool"],
    kernels={"float": {"Add": 7, "Relu": 6}},
    probed=["Add", "Relu", "Erf", "Gather", "GatherElements", "Clip", "Abs", "Max", "Where", "IsNaN", "Mul", "Div"],
)


def test_a_refusal_names_the_operators_of_the_file() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ [mine] a = Erf (x) [mine_too] y = Relu (a) }}"
    result = castsmith.fit(onnx.parser.parse_model(text), target=NO_ERF, max_error=0.1)
    assert not result.plan
    assert [(finding.site.node, finding.message, finding.help) for finding in result.diagnostics] == [
        ("mine", "no-erf has no Erf of float at opset 21", "it has no exact replacement")
    ]
    assert all(error.severity is Severity.ERROR for error in result.diagnostics)


def test_a_refusal_names_the_operator_from_which_a_lowered_one_comes() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ [code] a = Cast <to = 17> (x) [mine] y = Cast <to = 1> (a) }}"
    result = castsmith.fit(onnx.parser.parse_model(text), target=NO_ERF)
    assert not result.plan
    assert {finding.site.node for finding in result.diagnostics} <= {"code", "mine"}
    assert all(error.message.endswith(", which Cast is lowered to") for error in result.diagnostics)


def test_an_operator_of_another_runtime_is_refused_and_one_of_the_users_own_is_not() -> None:
    for domain, is_refused in (("com.microsoft", True), ("mine", False)):
        text = f'{HEAD[:-2]}, "{domain}" : 1]> g (float[2] x) => (float[2] y) {{ [other] y = {domain}.QGemm (x) }}'
        result = castsmith.fit(onnx.parser.parse_model(text), target="openvino-cpu")
        assert bool(result.plan) != is_refused, domain
        assert {error.site.node for error in (result.diagnostics if is_refused else result.findings)} == {"other"}


def node(text: str) -> NodeItem:
    """A node as `name=Operator:results`."""
    name, _, rest = text.partition("=")
    operator, _, results = rest.partition(":")
    return NodeItem(operator, outputs=tuple(map(ValueItem, results.split(","))), name=name)


FILE = "[mine] a = Erf (x) [other] b, i = TopK (a, k) y = Relu (b)"
TRACED: list[tuple[str, str, str, str]] = [
    # rewrites as `removed>made`, the finding's place as name:operator, the place in the file, the end of the message
    ("", "mine:Erf", "mine", ""),
    ("", "new:Erf", "new", ""),  # no record tells where it is from
    ("mine=Erf:a>n1=Mul:a", "n1:Mul", "mine", ", which Erf is lowered to"),
    ("mine=Erf:a>n1=Mul:t n2=Add:a", "n1:Mul", "mine", ", which Erf is lowered to"),
    ("mine=Erf:a>n1=Mul:a n1=Mul:a>n2=Exp:a", "n2:Exp", "mine", ", which Erf is lowered to"),
    ("mine=Erf:a>mine=Mul:a", "mine:Mul", "mine", ", which Erf is lowered to"),
    ("other=TopK:b,i>n1=Sort:i", "n1:Sort", "other", ", which TopK is lowered to"),
    ("=Relu:y>n1=Max:y", "n1:Max", "y", ", which Relu is lowered to"),
    ("q=Erf:r>n1=Mul:r", "n1:Mul", "n1", ""),  # what was replaced is not of the file either
    ("n1=Mul:t>n2=Mul:t n2=Mul:t>n1=Mul:t", "n1:Mul", "n1", ""),  # in a circle
]


def require_origin(rewrites: str, place: str, origin: str, end: str) -> None:
    model = onnx_ir.from_proto(
        onnx.parser.parse_model(f"{HEAD} g (float[2] x, int64[1] k) => (float[N] y) {{ {FILE} }}")
    )
    records = list[Rewrite]()
    removed = list[NodeItem]()
    for step in rewrites.split():
        before, is_change, after = step.partition(">")
        if is_change:
            removed, made = [node(before)], [node(after)]
            records.append(Rewrite("p", "r", Site("g", before.partition("=")[0]), removed, made, "why"))
        else:  # a further node of the last rewrite
            last = records.pop()
            records.append(Rewrite("p", "r", last.site, last.removed, [*last.made, node(step)], "why"))
    name, _, operator = place.partition(":")
    finding = Diagnostic("code", Severity.ERROR, Site("g", name, operator), "no kernel", "help")
    (told,) = in_users_words(model, records, [finding, finding])
    assert (told.site.node or told.site.output, told.message) == (origin, f"no kernel{end}")
    assert (told.code, told.severity, told.help) == ("code", Severity.ERROR, "help")


def test_a_finding_is_traced_to_the_file() -> None:
    check_all(require_origin, TRACED)


def test_a_constant_comes_from_the_place_of_its_rewrite() -> None:
    model = onnx_ir.from_proto(
        onnx.parser.parse_model(f"{HEAD} g (float[2] x, int64[1] k) => (float[N] y) {{ {FILE} }}")
    )
    rewrite = Rewrite(
        "p", "r", Site("g", "mine", "Erf", "a"), TextItem("old"), ValueItem("c", "float", "[2]", "1"), "why"
    )
    (told,) = in_users_words(model, [rewrite], [Diagnostic("code", Severity.ERROR, Site("g", "c"), "no type", "")])
    assert (told.site.node, told.message) == ("mine", "no type, which Erf is lowered to")
    (told,) = in_users_words(model, [], [Diagnostic("code", Severity.ERROR, Site("g", "n", "Neg", "b"), "no", "")])
    assert (told.site.node, told.message) == ("other", "no, which TopK is lowered to")
