"""A model run whole in ONNX Runtime, to tell what the runtime makes of it from what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir

from castsmith.ir.verify_compare import difference
from castsmith.ir.verify_engines import session
from castsmith.ir.verify_exact import Mask
from castsmith.ir.verify_promotion import Array


class Whole:
    """The second model as one ONNX Runtime session, unoptimized and as it runs by default."""

    def __init__(self, model: onnx_ir.Model) -> None:
        self.reason = ""
        self.sessions: dict[str, Any] = {}
        try:
            proto = onnx_ir.to_proto(model).SerializeToString()
            for level, optimized in (("unoptimized", False), ("with its default optimization", True)):
                self.sessions[level] = session(proto, optimized=optimized)
        except Exception as error:  # ONNX Runtime raises a class of its own for each of its status codes
            self.reason = " ".join(str(error).split())[:200]

    def differences(
        self, name: str, feeds: Mapping[str, Array], expected: Mapping[str, tuple[Array, Mask]], nan_bits: bool
    ) -> list[str]:
        """One sentence for each level at which an output is not what the model means."""
        if self.reason:
            return [f"ONNX Runtime does not take the second model whole: {self.reason}"]
        found: list[str] = []
        for level, opened in self.sessions.items():
            names: list[str] = [output.name for output in opened.get_outputs()]
            try:
                results: list[Any] = opened.run(
                    names, {i.name: feeds[i.name] for i in opened.get_inputs() if i.name in feeds}
                )
            except Exception as error:  # as above
                found.append(f"ONNX Runtime, {level}, does not run it whole: {' '.join(str(error).split())[:200]}")
                continue
            for output, array in zip(names, results, strict=True):
                here = difference(expected[output][0], np.asarray(array), expected[output][1], nan_bits=nan_bits)
                if here is not None:
                    place = list(here.index) if here.index else ""
                    found.append(
                        f"run whole by ONNX Runtime, {level}, {output}{place} is {here.b} where the model says {here.a}"
                        f" ({name}; {here.elements} of {here.of} elements)"
                    )
                    break
        return found
