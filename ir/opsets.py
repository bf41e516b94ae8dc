"""Which opsets are known: what the installed onnx has the schemas of, and Castsmith the rules of conversions."""

from __future__ import annotations

import onnx
import onnx.defs
import onnx_ir

from castsmith.ir.errors import OpsetError
from castsmith.ir.schemas import opset_of
from castsmith.numerics.opsets import NEWEST_OPSET


def require_known_opset(model: onnx_ir.Model) -> None:
    """Raise OpsetError where the model, or a function of it, is of an opset that is not known, or of none."""
    schemas = onnx.defs.onnx_opset_version()
    for scope in (model.graph, *model.functions.values()):
        opset = opset_of(scope.opset_imports, "") or 0
        if opset < 0:
            raise OpsetError(f"The model is of opset {opset}, and there is none of that number.")
        if opset > NEWEST_OPSET:
            known = f"this version of Castsmith knows opsets up to {NEWEST_OPSET}"
            raise OpsetError(f"The model is of opset {opset}, and {known}.")
        if opset > schemas:
            known = f"onnx {onnx.__version__} knows opsets up to {schemas}"
            raise OpsetError(f"The model is of opset {opset}, and the installed {known}: install a newer one.")
