"""Each option of each command is followed to its effect: a run with it ends in another way than one without it.

The options are those of the parsers: a new one needs a row here, or a reason why it has none.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

from castsmith.cli.main import main
from castsmith.cli.parser import subcommands
from castsmith.targets.target import TARGETS_FOLDER
from tests.cli.helpers import CHAIN, CLEAN, MIXED, Command, parsers, write_model
from tests.lowering.fit.models import four_bits
from tests.sampling import check_all

pytestmark = pytest.mark.usefixtures("engines_here")

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
_F, _D, _H = (f"g ({name}[4] x) => ({name}[4] y)" for name in ("float", "double", "float16"))
_IF = "y = If (c) <then_branch = t () => (float[1] p) {{ {} }}, else_branch = e () => (float[1] q) {{ q = Neg (x) }}>"
_CHAIN = " ".join(["a0 = OP (x)", *(f"a{n + 1} = OP (a{n})" for n in range(30)), "y = OP (a30)"])
MODELS = {
    "clean": CLEAN,
    "chain": CHAIN,
    "mixed": MIXED,
    "unsafe": f"{HEAD} g (float[2] x, int64[2] y) => (float[2] z) {{ a = Add (x, y) z = Neg (a) }}",
    "unsigned": f"{HEAD} g (uint64[2] x, int8[2] y) => (float[2] z) {{ a = Add (x, y) z = Cast <to = 1> (a) }}",
    "in_double": f"{HEAD} g (uint64[2] x, int8[2] y) => (float[2] z) {{ b = Cast <to = 11> (x) c = Cast <to = 11> (y)"
    " a = Add (b, c) z = Cast <to = 1> (a) }",
    "scalar": f"{HEAD} g (float16[2] x, float y) => (float16[2] z) {{ z = Add (x, y) }}",
    "kept": f"{HEAD} g (float16[2] a, float[2] b) => (float16[2] y) {{ y = Add (a, b) }}",
    "double": f"{HEAD} {_D} <double two = {{2}}> {{ a = Mul (x, two) y = Sqrt (a) }}",
    "floats": f"{HEAD} {_F} {{ [first] a = Exp (x) [last] y = Softmax (a) }}",
    "squares": f"{HEAD} {_F} {{ [square] a = Mul (x, x) [root] y = Sqrt (a) }}",
    "sized": f"{HEAD} g (float[n] x) => (float[n] y) {{ a = Mul (x, x) y = Sqrt (a) }}",
    "nameless": f"{HEAD} g (float[?] x) => (float[m] y) {{ a = Mul (x, x) y = Sqrt (a) }}",
    "disputed": f"{HEAD} g () => (float8e4m3fnuz[1] y) {{ k = Constant <value = float[1] {{1}}> ()"
    " y = Cast <to = 18> (k) }",
    "float8": f"{HEAD} g (float8e4m3fn[4] x) => (float8e4m3fn[4] y) {{ y = Identity (x) }}",
    "cast8": f"{HEAD} {_F} {{ a = Cast <to = 17> (x) y = Cast <to = 1> (a) }}",
    "long": f"{HEAD} g (int64[4] x) => (int64[4] z) <int64 low = {{1}}, int64 two = {{2}}> {{"
    " k = Clip (x, low, two) z = Add (k, two) }",
    "indices": f"{HEAD} g (int64[n] ids, float[9] t) => (float[n] y) <int64 one = {{1}}> {{"
    " f = Add (ids, one) y = Gather (t, f) }",
    "sizes": f"{HEAD} g (float[n, m] x) => (int64[k] y) {{ s = Shape (x) y = Add (s, s) }}",
    "reshaped": f"{HEAD} g (float[4,2] x, double[4] i) => (float[2,4] y, float[4] z) <int64[2] s = {{2, 4}}, double"
    " two = {2}> { y = Reshape (x, s) j = Add (i, two) z = Cast <to = 1> (j) }",
    "rooted": f"{HEAD} {_F} {{ y = Sqrt (x) }}",
    "rooted_as_power": f"{HEAD} {_F} <float h = {{0.5}}> {{ y = Pow (x, h) }}",
    "negated": f"{HEAD} {_F} {{ a = Neg (x) y = Neg (a) }}",
    "identity": f"{HEAD} {_F} {{ y = Identity (x) }}",
    "same": f"{HEAD} {_F} {{ y = Abs (x) }}",
    "near": f"{HEAD} {_F} <float w = {{1.001}}> {{ a = Abs (x) y = Mul (a, w) }}",
    "half": f"{HEAD} {_H} {{ y = Abs (x) }}",
    "wide": f"{HEAD} g (float16[4] x) => (float[4] y) {{ a = Abs (x) y = Cast <to = 1> (a) }}",
    "drawn": f"{HEAD} g (float[1] x, bool c) => (float[1] y) {{ {_IF.format('p = Abs (x)')} }}",
    "sized_double": f"{HEAD} g (double[n] x) => (double[n] y) {{ y = Sqrt (x) }}",
    "nameless_double": f"{HEAD} g (double[?] x) => (double[m] y) {{ y = Sqrt (x) }}",
    "half_squares": f"{HEAD} {_H} {{ a = Mul (x, x) y = Sqrt (a) }}",
    "skips": f"{HEAD} {_F} {{ a = Cast <to = 10> (x) b = Cast <to = 1> (a) c = Exp (b) d = Exp (c) e = Cast <to = 1>"
    " (d) f = Cast <to = 1> (e) y = Softmax (f) }",
    "many": f"{HEAD} {_F} {{ {_CHAIN.replace('OP', 'Abs')} }}",
    "many_others": f"{HEAD} {_F} {{ {_CHAIN.replace('OP', 'Neg')} }}",
    "large": f"{HEAD} g (float[300, 300] x) => (float[300, 300] y) {{ y = MatMul (x, x) }}",
}
SETTINGS = {
    "torch": 'promotion = "torch"',
    "cpu": 'target = "onnxruntime-cpu"',
    "settings": 'promotion = "torch"\ntarget = "onnxruntime-cpu"',
    "invalid": "target = 1",
}
LARGE = {
    "weights": "g (float[1024] x) => (float[1024] y, int32[1024] j) { a = Mul (x, v) y = Add (a, w) j = Neg (i) }",
    "linked": "g (float[1024] x) => (float[1024] y, int32[1024] j) { a = Mul (x, v) y = Add (a, w) j = Neg (i) }",
    "growing": "g (float[1024] x) => (float[1024] y) { a = Cast <to = 1> (b) y = Add (x, a) }",
    "quantized": "g (int8[N, 1024] x) => (float[N] y) <float s = {0.5}> { a = DequantizeLinear (x, s)"
    " c = DequantizeLinear (b, s) y = MatMul (a, c) }",
    "four": "g (float[4096] x) => (float[4096] y) { a = Cast <to = 1> (c) y = Add (x, a) }",
}
"""Bodies with the constants v, w, i, b and c of `_write_weights`."""


def fill(folder: Path) -> None:
    """Write the files that the rows below name."""
    for name, text in MODELS.items():
        write_model(folder / f"{name}.onnx", text)
    _write_weights(folder)
    infinite = onnx.load(folder / "disputed.onnx")
    infinite.graph.node[0].attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.full(1, np.inf, np.float32)))
    onnx.save(infinite, folder / "disputed.onnx")
    named = onnx.load(folder / "clean.onnx")
    named.graph.node[0].name = "named"
    named.graph.node[0].metadata_props.add(key="note", value="yes")
    onnx.save(named, folder / "noted.onnx")
    for name, number in (("ones", 1.0), ("large", 1e5), ("nan", -np.nan)):
        np.savez(folder / f"{name}.npz", x=np.full(4, number, np.float32))
    np.savez(folder / "unsafe.npz", x=np.ones(2, np.float32), y=np.ones(2, np.int64))
    np.savez(folder / "halves.npz", x=np.full(4, 1000, np.float16))
    np.savez(folder / "doubles.npz", x=np.full(4, 0.1))
    onnx.save(four_bits(), folder / "four_bits.onnx")
    (folder / "broken.onnx").write_bytes(b"no model")
    for name, text in SETTINGS.items():
        (folder / f"{name}.toml").write_text(text)
    for name, model in (("settings", "unsafe"), ("settings", "squares"), ("invalid", "squares")):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "castsmith.toml").write_text(SETTINGS[name])
        shutil.copy(folder / f"{model}.onnx", folder / name)
    target = {"name": "no-int64", "types": ["float", "int32", "bool"], "newest_opset": 21, "newest_ir_version": 10}
    (folder / "no-int64.json").write_text(json.dumps({**target, "kernels": {}}))
    data = json.loads((TARGETS_FOLDER / "onnxruntime-cpu.json").read_text(encoding="utf-8"))
    types = [name for name in data["types"] if name != "int4"]
    (folder / "no-int4.json").write_text(json.dumps({**data, "name": "no-int4", "types": types}))
    (folder / "baseline.json").write_text('{"findings": []}')


def _write_weights(folder: Path) -> None:
    """Write models with large constants."""
    ones = np.ones(1024, np.float32)
    arrays = {"v": ones, "w": ones, "i": ones.astype(np.int32), "b": ones.astype(np.int8)}
    tensors = {name: onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()}
    tensors["c"] = onnx.helper.make_tensor("c", onnx.TensorProto.INT4, [4096], [1] * 4096)
    for name, kept in {"weights": "vwi", "linked": "vwi", "growing": "b", "quantized": "b", "four": "c"}.items():
        model = onnx.parser.parse_model(f"{HEAD} {LARGE[name]}")
        model.graph.initializer.extend(tensors[each] for each in kept)
        path, data = folder / f"{name}.onnx", name == "linked"
        onnx.save(model, path, save_as_external_data=data, location="linked.bin", size_threshold=0)


# By command and option: the words of a run, and those that the option adds.
Rows = dict[str, tuple[str, str]]


def writing(words: str) -> Rows:
    """Return the rows of what the commands that write a model have in common; `words` belong to each run."""
    models = "squares", "weights", "linked", "skips", "mixed"
    plain, weights, linked, skips, mixed = (f"{name}.onnx -o out.onnx {words}" for name in models)
    return {
        "--output": (plain, "--output=other.onnx"),
        "--dry-run": (plain, "--dry-run"),
        "--external-data": (weights, "--external-data=w.bin"),
        "--link-data": (linked, "--link-data"),
        "--shard-bytes": (f"{weights} --external-data=w.bin", "--shard-bytes=3000"),
        "--diff": (skips, "--diff"),
        "--full-diff": (f"{mixed} --diff", "--full-diff"),
        "--explain": (skips, "--explain"),
        "--report": (plain, "--report=r.json"),
        "--quiet": (plain, "--quiet"),
        "--verbose": (plain, "--verbose"),
        "--json": (plain, "--json"),
    }


def rules(words: str) -> Rows:
    """Return the rows of the rules of promotion; `words` has a place for the model."""
    return {
        "--promotion": (words.format("unsafe"), "--promotion=numpy"),
        "--promote-unsafe": (words.format("unsafe"), "--promote-unsafe"),
        "--pytorch-scalar-promotion": (words.format("scalar"), "--pytorch-scalar-promotion"),
        "--u64-integer-promotion-target": (
            f"{words.format('unsigned')} --promote-unsafe", "--u64-integer-promotion-target=double",
        ),
    }  # fmt: skip


_TENSORRT, _ANDROID = "--target=tensorrt-11", "--target=onnxruntime-android"
ROWS: dict[str, Rows] = {
    "optimize": {
        **writing(""),
        **rules("{}.onnx -o out.onnx"),
        "--repair-only": ("chain.onnx -o out.onnx", "--repair-only"),
        "--target": ("cast8.onnx -o out.onnx", _ANDROID),
        "--strict-device": ("reshaped.onnx -o out.onnx --target=onnxruntime-webgpu", "--strict-device"),
        "--keep-output-types": ("kept.onnx -o out.onnx", "--keep-output-types"),
        "--max-growth": ("growing.onnx -o out.onnx", "--max-growth=0"),
        "--max-total-growth": ("growing.onnx -o out.onnx", "--max-total-growth=0"),
        "--fold-disputed": ("disputed.onnx -o out.onnx", "--fold-disputed"),
        "--fold-as": ("disputed.onnx -o out.onnx", "--fold-as=onnxruntime"),
        "--fold-quantized": ("quantized.onnx -o out.onnx", "--fold-quantized"),
        "--interface": (f"float8.onnx -o out.onnx {_ANDROID}", "--interface=wide"),
        "--storage": ("four.onnx -o out.onnx --target=no-int4.json", "--storage=byte"),
        "--emit-functions": (f"cast8.onnx -o out.onnx {_ANDROID}", "--emit-functions"),
        "--vendor": ("four_bits.onnx -o out.onnx --target=onnxruntime-cpu", "--vendor=com.microsoft"),
        "--narrow": ("long.onnx -o out.onnx", "--narrow=int64"),
        "--narrow-interface": ("long.onnx -o out.onnx --narrow=int64", "--narrow-interface"),
        "--largest-dim": ("sizes.onnx -o out.onnx --narrow=int64", "--largest-dim=1000"),
        "--passes": ("chain.onnx -o out.onnx", "--passes=place-casts"),
        "--no-provenance": ("mixed.onnx -o out.onnx", "--no-provenance"),
        "--until": ("chain.onnx -o out.onnx", "--until=insert-promote-types"),
        "--range": ("indices.onnx -o out.onnx --narrow=int64", "--range=ids=0:7"),
        "--config": ("unsafe.onnx -o out.onnx", "--config=torch.toml"),
        "--no-config": ("settings/unsafe.onnx -o out.onnx", "--no-config"),
        "--verify": ("chain.onnx -o out.onnx", "--verify"),
        "--engine": ("chain.onnx -o out.onnx --verify --json", "--engine=reference"),
        "--dim": ("sized.onnx -o out.onnx --verify", "--dim=n=7"),
        "--shape": ("nameless.onnx -o out.onnx --verify", "--shape=x=50"),
        "--inputs": ("squares.onnx -o out.onnx --verify", "--inputs=ones.npz"),
    },
    "convert": {
        **writing("--to=float16"),
        "--to": ("floats.onnx -o out.onnx --to=float16", "--to=bfloat16"),
        "--target": ("floats.onnx -o out.onnx --to=bfloat16", "--target=onnxruntime-cpu"),
        "--io": ("squares.onnx -o out.onnx --to=float16", "--io=convert"),
        "--keep": ("squares.onnx -o out.onnx --to=float16", "--keep=root"),
        "--force": ("floats.onnx -o out.onnx --to=float16", "--force=first"),
        "--max-error": ("squares.onnx -o out.onnx --to=float16", "--max-error=1e-6"),
        "--weights-only": ("weights.onnx -o out.onnx --to=float16", "--weights-only"),
        "--rescale": ("squares.onnx -o out.onnx --to=float16 --inputs=large.npz", "--rescale"),
        "--measure": ("squares.onnx -o out.onnx --to=float16", "--measure"),
        "--dim": ("sized.onnx -o out.onnx --to=float16 --measure", "--dim=n=7"),
        "--shape": ("nameless.onnx -o out.onnx --to=float16 --measure", "--shape=x=50"),
        "--inputs": ("squares.onnx -o out.onnx --to=float16", "--inputs=ones.npz"),
        "--range": ("squares.onnx -o out.onnx --to=float16", "--range=x=0:1000"),
        "--config": ("floats.onnx -o out.onnx --to=bfloat16", "--config=cpu.toml"),
        "--no-config": ("settings/squares.onnx -o out.onnx --to=bfloat16", "--no-config"),
    },
    "fit": {
        **writing("--target=onnxruntime-android"),
        "--target": ("double.onnx -o out.onnx --target=onnxruntime-cpu", _TENSORRT),
        "--max-error": (f"double.onnx -o out.onnx {_TENSORRT}", "--max-error=1e-3"),
        "--exact": ("four_bits.onnx -o out.onnx --target=onnxruntime-webgpu", "--exact"),
        "--plan": ("squares.onnx --dry-run --target=onnxruntime-cpu", "--plan"),
        "--range": ("indices.onnx -o out.onnx --target=no-int64.json", "--range=ids=0:7"),
        "--dim": (f"sized_double.onnx -o out.onnx {_TENSORRT} --max-error=1e-3 --json", "--dim=n=7"),
        "--shape": (f"nameless_double.onnx -o out.onnx {_TENSORRT} --max-error=1e-3 --json", "--shape=x=50"),
        "--inputs": (f"double.onnx -o out.onnx {_TENSORRT} --max-error=1e-3", "--inputs=doubles.npz"),
        "--config": (f"squares.onnx -o out.onnx {_TENSORRT}", "--config=invalid.toml"),
        "--no-config": (f"invalid/squares.onnx -o out.onnx {_TENSORRT}", "--no-config"),
    },
    "check": {
        **rules("{}.onnx"),
        "--target": ("double.onnx", "--target=tensorrt-10"),
        "--strict-device": ("reshaped.onnx --target=onnxruntime-webgpu", "--strict-device"),
        "--inputs": ("half_squares.onnx", "--inputs=halves.npz"),
        "--select": ("mixed.onnx", "--select=lossy-cast-chain"),
        "--ignore": ("mixed.onnx", "--ignore=mixed-operand-types"),
        "--fail-on": ("skips.onnx", "--fail-on=note"),
        "--exit-zero": ("unsafe.onnx", "--exit-zero"),
        "--baseline": ("mixed.onnx", "--baseline=accepted.json"),
        "--write-baseline": ("mixed.onnx --baseline=baseline.json", "--write-baseline"),
        "--format": ("mixed.onnx", "--format=github"),
        "--json": ("mixed.onnx", "--json"),
        "--also": ("mixed.onnx", "--also=json=o.json"),
        "--config": ("unsafe.onnx", "--config=torch.toml"),
        "--no-config": ("settings/unsafe.onnx", "--no-config"),
        "--quiet": ("mixed.onnx", "--quiet"),
    },
    "bounds": {
        **rules("{}.onnx --range=x=0:16777217 --range=y=0:5 --json"),
        "--promote-unsafe": ("unsafe.onnx --inputs=unsafe.npz", "--promote-unsafe"),
        "--range": ("squares.onnx", "--range=x=0:1"),
        "--inputs": ("squares.onnx", "--inputs=ones.npz"),
        "--to": ("squares.onnx --range=x=0:1000", "--to=float16"),
        "--all": ("many.onnx --range=x=0:1", "--all"),
        "--report": ("squares.onnx", "--report=page.html"),
        "--json": ("squares.onnx", "--json"),
        "--quiet": ("squares.onnx", "--quiet"),
    },
    "info": {"--json": ("mixed.onnx", "--json")},
    "show": {"--json": ("mixed.onnx", "--json"), "--textconv": ("broken.onnx", "--textconv")},
    "diff": {
        "--all": ("clean.onnx noted.onnx", "--all"),
        "--full": ("many.onnx many_others.onnx", "--full"),
        "--format": ("clean.onnx mixed.onnx", "--format=html"),
        "--report": ("clean.onnx mixed.onnx", "--report=page.html"),
        "--json": ("clean.onnx mixed.onnx", "--json"),
        "--quiet": ("clean.onnx mixed.onnx", "--quiet"),
    },
    "verify": {
        **rules("{0}.onnx {0}.onnx"),
        "--u64-integer-promotion-target": (
            "unsigned.onnx in_double.onnx --promote-unsafe", "--u64-integer-promotion-target=double",
        ),
        "--engine": ("same.onnx near.onnx --json", "--engine=reference"),
        "--sets": ("same.onnx same.onnx", "--sets=3"),
        "--seed": ("same.onnx near.onnx --rtol=0.01", "--seed=7"),
        "--dim": ("sized.onnx sized.onnx", "--dim=n=7"),
        "--shape": ("nameless.onnx nameless.onnx", "--shape=x=50"),
        "--inputs": ("same.onnx identity.onnx", "--inputs=ones.npz"),
        "--rtol": ("same.onnx near.onnx", "--rtol=0.1"),
        "--atol": ("same.onnx near.onnx --inputs=ones.npz", "--atol=0.1"),
        "--time-limit": ("same.onnx same.onnx", "--time-limit=0.000001"),
        "--memory": ("large.onnx large.onnx", "--memory=1"),
        "--allow-type-change": ("half.onnx wide.onnx", "--allow-type-change=y"),
        "--allow-unreached": ("same.onnx identity.onnx --inputs=ones.npz", "--allow-unreached"),
        "--prove": ("rooted.onnx rooted_as_power.onnx --inputs=ones.npz", "--prove"),
        "--report": ("same.onnx near.onnx", "--report=page.html"),
        "--nan-bits": ("same.onnx identity.onnx --inputs=nan.npz --allow-unreached", "--nan-bits"),
        "--quiet": ("same.onnx same.onnx", "--quiet"),
        "--json": ("same.onnx same.onnx", "--json"),
    },
    "cast": {
        "--from": ("0x10 --from=float16 --to=float", "--from=uint8"),
        "--to": ("300 --to=float16", "--to=int8"),
        "--no-saturate": ("1000 --from=float --to=float8e4m3fn", "--no-saturate"),
        "--round-mode": ("5 --from=float --to=float8e8m0", "--round-mode=down"),
        "--opset": ("inf --from=float --to=float8e4m3fnuz", "--opset=23"),
        "--json": ("1 --to=int8", "--json"),
    },
    "dev trunc": {
        "--scale": ("100 --in-bitwidth=8 --out-bitwidth=4", "--scale=7"),
        "--zero-point": ("100 --in-bitwidth=8 --out-bitwidth=4", "--zero-point=3"),
        "--in-bitwidth": ("100 --in-bitwidth=8 --out-bitwidth=4", "--in-bitwidth=6"),
        "--out-bitwidth": ("100 --in-bitwidth=8 --out-bitwidth=4", "--out-bitwidth=2"),
        "--out-scale": ("100 --in-bitwidth=8 --out-bitwidth=4", "--out-scale=4"),
        "--rounding-mode": ("100 --in-bitwidth=8 --out-bitwidth=4", "--rounding-mode=CEIL"),
        "--unsigned": ("200 --in-bitwidth=8 --out-bitwidth=4 --out-scale=16", "--unsigned"),
        "--narrow": (" -128 --in-bitwidth=8 --out-bitwidth=4 --out-scale=16", "--narrow"),
        "--type": ("0.1 --in-bitwidth=8 --out-bitwidth=8 --scale=0.1", "--type=double"),
        "--json": ("100 --in-bitwidth=8 --out-bitwidth=4", "--json"),
    },
    "dev promote": {
        "--scalar": ("float16 float --promotion=torch", "--scalar=1"),
        "--promotion": ("int64 float", "--promotion=numpy"),
        "--promote-unsafe": ("int64 float", "--promote-unsafe"),
        "--pytorch-scalar-promotion": ("float16 float --scalar=1 --promotion=openvino", "--pytorch-scalar-promotion"),
        "--u64-integer-promotion-target": (
            "uint64 int8 --promote-unsafe", "--u64-integer-promotion-target=double",
        ),
        "--json": ("float16 float", "--json"),
    },
    "dev conformance export": {
        "--types": ("s --types=int4", "--types=uint4"),
        "--opset": ("s --types=int4", "--opset=21"),
        "--quiet": ("s --types=int4", "--quiet"),
        "--json": ("s --types=int4", "--json"),
    },
    **{name: {"--json": (words, "--json")} for name, words in {
        "targets": "", "targets list": "", "targets show": "qonnx", "passes": "", "explain": "fold-constant",
        "dev conformance": "", "completion": "bash",
    }.items()},
}  # fmt: skip
REFUSED = ("--pytorch-scalar-promotion", "--config", "--target")
"""Options by which a run is refused in a row above."""
ELSEWHERE = {
    "--help": "test_main.py",
    "--help-all": "test_main.py",
    "--no-color": "a terminal has colours: test_main.py",
    "--jobs": "it only saves time",
    "--dask": "batch/test_many.py",
    "--skip-unchanged": "batch/test_unchanged.py",
    "certificate": "test_exit_codes.py, and what it says: tests/verification/test_checker.py",
    "optimize --certificate": "tests/verification/test_checker.py",
    "verify --certificate": "tests/verification/test_checker.py",
    "check --all": "a terminal is grouped: gate/test_gate.py",
    "targets probe --json": "it runs a runtime: tests/targets",
    "dev conformance run": "it runs an engine: tests/conformance",
}


def every_parser() -> dict[str, argparse.ArgumentParser]:
    outer = parsers()
    return outer | {f"{name} {word}": each for name in outer for word, each in subcommands(outer[name]).items()}


def test_each_option_has_a_row_or_a_reason() -> None:
    options = {
        f"{name} {action.option_strings[-1]}"
        for name, parser in every_parser().items()
        for action in parser._actions  # pyright: ignore[reportPrivateUsage]
        if action.option_strings
    }
    rows = {f"{name} {option}" for name, of_command in ROWS.items() for option in of_command}
    assert rows <= options
    assert {row for row in options - rows if not any(f" {row} ".find(f" {way} ") >= 0 for way in ELSEWHERE)} == set()


_TIMES = re.compile(r"\d+(\.\d+)? m?s\b|took .*|\"seconds\": [\d.e-]+")


def ended(castsmith: Command, folder: Path, words: str) -> tuple[object, ...]:
    """Run the words beside the files that they name; return what is printed, without times, and what is there then."""
    here = folder.parent / "run"
    below = next((name for name in ("settings", "invalid") if f"{name}/" in words), "")
    (here / below).mkdir(parents=True)
    for file in (folder / below).iterdir():
        if file.is_file() and (below or file.stem in words):
            shutil.copy(file, here / below)
    os.chdir(here / below)
    try:
        outcome = castsmith(*words.replace(f"{below}/", "" if below else "/").split())
        files = {str(file.relative_to(here)): file.read_bytes() for file in here.rglob("*") if file.is_file()}
    finally:
        os.chdir(folder)
        shutil.rmtree(here)
    return outcome.code, _TIMES.sub("", outcome.out), _TIMES.sub("", outcome.err), files


_PLAIN: dict[str, tuple[object, ...]] = {}
"""What runs without the option end in: many rows share one."""


def ended_plain(castsmith: Command, folder: Path, words: str) -> tuple[object, ...]:
    if words not in _PLAIN:
        _PLAIN[words] = ended(castsmith, folder, words)
    return _PLAIN[words]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("effects") / "files"
    folder.mkdir()
    fill(folder)
    with chdir(folder):
        main(["check", "mixed.onnx", "--baseline", "accepted.json", "--write-baseline"])
    return folder


@pytest.mark.parametrize("command", ROWS)
def test_an_option_has_an_effect(
    castsmith: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(folder)

    def follow(option: str, without: str, added: str) -> None:
        given = " -o " if option == "--output" else f" {option}="  # which may not be given twice
        kept = re.sub(rf"{given}\S+", "", f" {without}")
        runs = (
            ended_plain(castsmith, folder, f"{command} {without}"),
            ended(castsmith, folder, f"{command} {kept} {added}"),
        )
        if runs[0] == runs[1] or (runs[1][0] == 2 and option not in REFUSED):
            pytest.fail(f"{option}: {runs[0][0]}, {runs[1][0]}: {runs[0][1]}{runs[0][2]}{runs[1][2]}")

    check_all(follow, ((option, *words) for option, words in ROWS[command].items()))


@pytest.mark.parametrize("command", [command for command in ROWS if "--json" in ROWS[command]])
def test_a_run_ends_as_the_same_one_before(
    castsmith: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Otherwise the test above could not fail."""
    monkeypatch.chdir(folder)
    for words in (ROWS[command]["--json"][0], " ".join(ROWS[command]["--json"])):
        assert ended_plain(castsmith, folder, f"{command} {words}") == ended(castsmith, folder, f"{command} {words}")
