"""Write `targets/registries/onnxruntime-cpu.json` again: the kernels that the installed ONNX Runtime lists.

python -m tests.targets.registry [--write]      without --write: print the operators that differ
"""

# The bindings of ONNX Runtime have no types.
# pyright: basic

from __future__ import annotations

import json
import sys
from typing import Any

from castsmith.targets.registry import REGISTRIES

FILE = REGISTRIES / "onnxruntime-cpu.json"
_LAST = 2**31 - 1
_DOMAINS = ("", "ai.onnx.ml", "com.microsoft")


def installed() -> dict[str, dict[str, list[list[Any]]]]:
    """For each domain and operator: rows of the first and last opset, and the types of each type variable."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    found: dict[str, dict[str, list[list[Any]]]] = {domain: {} for domain in _DOMAINS}
    for kernel in get_all_opkernel_def():
        if kernel.provider != "CPUExecutionProvider" or kernel.domain not in found:
            continue
        first, last = kernel.version_range
        types = {name: " ".join(sorted(map(_short, names))) for name, names in sorted(kernel.type_constraints.items())}
        row = [first, 0 if last == _LAST else last, types]
        rows = found[kernel.domain].setdefault(kernel.op_name, [])
        if row not in rows:
            rows.append(row)
    return {domain: {name: _merged(rows) for name, rows in sorted(table.items())} for domain, table in found.items()}


def _merged(rows: list[list[Any]]) -> list[list[Any]]:
    """The rows, those joined that differ in the types of one variable alone."""
    made: list[list[Any]] = []
    for first, last, types in sorted(rows, key=str):
        for other in made:
            differing = [name for name in types if other[2].get(name) != types[name]]
            if other[:2] == [first, last] and other[2].keys() == types.keys() and len(differing) == 1:
                (name,) = differing
                other[2][name] = " ".join(sorted({*other[2][name].split(), *types[name].split()}))
                break
        else:
            made.append([first, last, dict(types)])
    return made


def _short(text: str) -> str:
    return text[7:-1] if text.startswith("tensor(") else text


def text_of(tables: dict[str, dict[str, list[list[Any]]]]) -> str:
    """The JSON of the file, one operator in a line."""
    parts = []
    for domain, table in tables.items():
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(rows)}" for name, rows in table.items())
        parts.append(f"  {json.dumps(domain)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    text = text_of(installed())
    if "--write" in sys.argv:
        FILE.write_text(text, encoding="utf-8")
    else:
        before, now = json.loads(FILE.read_text(encoding="utf-8")), json.loads(text)
        print(
            *(f"{d}.{n}" for d in now for n in {**before[d], **now[d]} if before[d].get(n) != now[d].get(n)), sep="\n"
        )
