"""A program of a user, who has the wheel and checks types strictly: it runs, and every type is known."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType
from onnx_ir.passes.common import CommonSubexpressionEliminationPass, TopologicalSortPass

import castsmith
from castsmith.lowering import LowerCustom, LowerFloat8, NodeBuilder, Replacement
from castsmith.passes import FoldConstants, InsertPromoteTypes, PassManager, ResolvePromoteTypes, Sequential

MODEL = """<ir_version: 10, opset_import: ["": 21, "com.example": 1]>
g (float[4] x, int64[4] n) => (float[4] y) { a = com.example.Twice (x)  b = Add (a, n)  c = Cast <to = 17> (b)
    y = Cast <to = 1> (c) }"""


def twice(node: onnx_ir.Node, build: NodeBuilder) -> Replacement | castsmith.Refusal | None:
    x = node.inputs[0]
    if x is None or x.dtype != DataType.FLOAT:
        return build.refuse("x is no float")
    return build.replace(build.op("Mul", x, 2), reason="x * 2")


def lines(records: castsmith.Records) -> list[str]:
    """Return the rewrites and refusals, a line each."""
    done = [f"{rewrite.rule} at {rewrite.site}: {rewrite.effect.value}" for rewrite in records.rewrites]
    return done + [f"{refusal.rule} not done: {refusal.reason}" for refusal in records.refusals]


def piecewise(target: castsmith.Target) -> castsmith.RewriteResult:
    """Passes of both, in pass managers of both."""
    lowering = LowerCustom(target, {"com.example.Twice": twice})
    promotion = (InsertPromoteTypes(promote_unsafe=True), ResolvePromoteTypes())
    inner = PassManager([FoldConstants(max_growth=0), CommonSubexpressionEliminationPass()], steps=2)
    return Sequential(TopologicalSortPass(), lowering, *promotion, inner, LowerFloat8(target))(
        onnx_ir.from_onnx_text(MODEL)
    )


def refused() -> None:
    """Errors that a type checker must report; without types it would report these comments as unnecessary."""
    FoldConstants(max_growth="much")  # pyright: ignore[reportArgumentType]
    InsertPromoteTypes(promote_unsave=True)  # pyright: ignore[reportCallIssue]
    castsmith.optimize(MODEL, target=1)  # pyright: ignore[reportArgumentType]
    model = onnx_ir.from_onnx_text(MODEL)
    castsmith.optimize(model).refusals.add(1)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    FoldConstants()(model).records.rewrites[0].rule = ""  # pyright: ignore[reportAttributeAccessIssue]
    Sequential(FoldConstants())(model).records.extend([])  # pyright: ignore[reportArgumentType]


def main() -> None:
    target: castsmith.Target = castsmith.load_target("onnxruntime-android")
    rules = castsmith.PromotionRules(promote_unsafe=True)
    whole: castsmith.Result = castsmith.optimize(
        onnx_ir.from_onnx_text(MODEL), target=target, promotion=rules, lowerings={"com.example.Twice": twice}
    )
    with castsmith.recording() as records:
        onnx_ir.passes.Sequential(InsertPromoteTypes(promote_unsafe=True))(onnx_ir.from_onnx_text(MODEL))
    found: list[list[str]] = [lines(piecewise(target).records), lines(records)]
    common: DataType | None = castsmith.promote_types("int8", "float16")
    print(len(whole.rewrites), [len(each) for each in found], common, castsmith.__version__)


if __name__ == "__main__":
    main()
