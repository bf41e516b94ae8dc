"""Whether a pass kept every bit: what `optimize(verify=...)` asks after each."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.errors import ModelError, VerificationError
from castsmith.ir.saving import reloaded
from castsmith.numerics.promotion import PromotionRules

_SETS = 6


def require_same(
    before: onnx_ir.Model, after: onnx_ir.Model, pass_name: str, *, engine: str, promotion: PromotionRules
) -> None:
    """Raise VerificationError, in one sentence that names the value and the node, where `after` gives other bits.

    Both are compared as a file of them would be read: what a name in it stands for is looked up again.
    """
    from castsmith.ir.verify import verify

    try:
        after = reloaded(after)
    except ModelError as error:
        raise VerificationError(f"verification failed: after {pass_name}, the model cannot be read: {error}") from None
    found = verify(reloaded(before), after, engine=engine, promotion=promotion, sets=_SETS).mismatch
    if found is None:
        return
    here = found.difference
    what = f"{found.value}{list(here.index) if here.index else ''} ({found.site})" if found.value else "the model"
    raise VerificationError(
        f"verification failed: after {pass_name}, {what} is {here.b} and was {here.a} on inputs {found.inputs}."
    )
