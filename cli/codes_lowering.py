"""Pages of the rules of the passes that work towards a target."""

from __future__ import annotations

from castsmith.cli.code_page import Page

LOWERING = (
    Page(
        "lower-custom",
        "rewrite",
        "An operator of another domain becomes what a lowering that a user or a package added makes of it, or refuses.",
        "The target has no such operator; the reason is the lowering's own, and so is the claim of how exact it is.",
        "- y = com.example.ScaledFloat8Cast (x, scale)\n+ q = Div (x, scale)\n+ y = Cast <to = float8e4m3fn> (q)",
        "Where refused, the lowering says why; `castsmith passes` lists the packages that lower operators.",
    ),
    Page(
        "lower-trunc",
        "rewrite",
        "A QONNX Trunc becomes operators of ONNX. Refused without constant parameters, or before Round exists.",
        "No runtime has Trunc; the sequence gives qonnx's bits.",
        "- y = qonnx.custom_op.general.Trunc (x, scale, zeropt, in_bits, out_bits)\n+ Div, Add, Round, Floor, Mul ...",
        "Where refused, raise the opset to 11 or make the parameters constants.",
    ),
    Page(
        "lower-quant",
        "rewrite",
        "A QONNX Quant, BipolarQuant or FloatQuant becomes operators of ONNX. Refused for parameters not constant.",
        "No runtime has them; each step becomes one operator, in the order and type in which QONNX computes.",
        "- y = qonnx.custom_op.general.Quant (x, scale, zeropt, bits)\n+ Div, Add, two Where, Round, Sub, Mul",
        "Where refused, the reason says what has to be constant, or which rounding mode is not exact.",
    ),
    Page(
        "lower-*",
        "rewrite",
        "An operator on a type that the target lacks becomes exact operators that it has. lower-Cast, for one.",
        "The values are kept as codes in uint8, and the operator is computed on codes.",
        "- y = Cast <to = float8e4m3fn> (x)\n+ 27 nodes on integers, bit for bit the same",
        "Where refused, the reason names the node; change its type in the model.",
    ),
    Page(
        "move",
        "rewrite",
        "An operator that only moves elements works on codes as it did on values.",
        "Reshape, Transpose and their like never look at an element.",
        "- y = Reshape (x, s)  # float8e4m3fn\n+ y = Reshape (x, s)  # uint8",
        "Nothing.",
    ),
    Page(
        "store-as-codes",
        "rewrite",
        "Constants, inputs and outputs of a type that the target lacks become uint8 codes.",
        "The target cannot hold the type; a code is the same bits.",
        "- float8e4m3fn[4] w\n+ uint8[4] w",
        "Feed and read the codes of inputs and outputs that changed, which the record names.",
    ),
    Page(
        "inline-functions",
        "rewrite",
        "Model-local functions in which something is lowered become their nodes, at each call.",
        "Functions have no constants of their own, and different calls may need different nodes.",
        "- y = local.f (x)\n+ the nodes of f",
        "Nothing.",
    ),
    Page(
        "opset",
        "rewrite",
        "The model's opset is moved to one that the target accepts. Refused where an operator would change.",
        "Operators differ between opsets; only where none of the model's does is this exact.",
        "- opset 28\n+ opset 26",
        "Where refused, the reason names the operator.",
    ),
    Page(
        "ir-version",
        "rewrite",
        "The model's IR version is lowered to one that the target accepts.",
        "The model uses nothing of the newer version.",
        "- IR version 14\n+ IR version 13",
        "Nothing.",
    ),
    Page(
        "widen",
        "rewrite",
        "An operator on float16 or bfloat16 for which the target has no kernel computes in float. Refused for some.",
        "Its result in float, rounded once, is its result in the type.",
        "- y = Add (a, b)  # bfloat16\n+ y = Cast <to = bfloat16> (Add (a_float, b_float))",
        "Where refused, change the operator or its type in the model.",
    ),
    Page(
        "widen-storage",
        "rewrite",
        "Values of a 16-bit float type that the target lacks are kept in float. Refused where an operator forbids it.",
        "float holds each of them exactly.",
        "- bfloat16[4] w\n+ float[4] w",
        "Feed and read float where the record names an input or output.",
    ),
    Page(
        "round-in-place",
        "rewrite",
        "A result kept in float is rounded to the digits of the type that it stands for.",
        "The next operator expects a value of that type.",
        "+ y = the float nearest to s that bfloat16 has",
        "Nothing.",
    ),
)
