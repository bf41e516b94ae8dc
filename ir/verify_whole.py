"""A model run whole in a runtime, to tell what the runtime makes of it from what it means."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir

from castsmith.ir.verify_compare import difference
from castsmith.ir.verify_engines import TITLES, Run, session
from castsmith.ir.verify_exact import Mask
from castsmith.ir.verify_openvino import whole_in_openvino
from castsmith.ir.verify_promotion import Array


class Whole:
    """The second model in the engine as a whole: in ONNX Runtime unoptimized and as it runs by default."""

    def __init__(self, model: onnx_ir.Model, engine: str) -> None:
        self.title, self.reason, self.runs = TITLES[engine], "", dict[str, Run]()
        self.names = [value.name or "" for value in model.graph.outputs]
        try:
            proto = onnx_ir.to_proto(model).SerializeToString()
            if engine == "openvino":
                self.runs[""] = whole_in_openvino(proto)
            else:
                self.runs[", unoptimized"] = _session_run(proto, optimized=False)
                self.runs[", with its default optimization"] = _session_run(proto, optimized=True)
        except Exception as error:  # ONNX Runtime raises a class of its own for each of its status codes
            self.reason = _short(error)

    def differences(
        self, name: str, feeds: Mapping[str, Array], expected: Mapping[str, tuple[Array, Mask]], nan_bits: bool
    ) -> list[str]:
        """One sentence for each level at which an output is not what the model means."""
        if self.reason:
            return [f"{self.title} does not take the second model whole: {self.reason}"]
        found: list[str] = []
        for level, run in self.runs.items():
            try:
                results = run(feeds)
            except Exception as error:  # as above
                found.append(f"{self.title}{level}, does not run it whole: {_short(error)}")
                continue
            for output, array in zip(self.names, results, strict=True):
                here = difference(expected[output][0], np.asarray(array), expected[output][1], nan_bits=nan_bits)
                if here is not None:
                    place = list(here.index) if here.index else ""
                    found.append(
                        f"run whole by {self.title}{level}, {output}{place} is {here.b} where the model says {here.a}"
                        f" ({name}; {here.elements} of {here.of} elements)"
                    )
                    break
        return found


def _session_run(model: bytes, *, optimized: bool) -> Run:
    opened = session(model, optimized=optimized)
    names = [value.name for value in opened.get_inputs()]
    return lambda feeds: opened.run(None, {name: feeds[name] for name in names if name in feeds})


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
