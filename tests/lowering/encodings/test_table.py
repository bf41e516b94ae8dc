"""Codes of float8e8m0 under every policy: at the powers of two, their ties, and the numbers beside them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.lowering.encodings.choose import Encoding, encode
from castsmith.lowering.formats import NarrowPolicy, encode_array
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session
from tests.sampling import check_all

POLICIES = [NarrowPolicy(saturate, 28, mode) for saturate in (True, False) for mode in ("up", "down", "nearest")]
WAYS = [(Encoding.LADDER, np.float32), (Encoding.LADDER, np.float64), (Encoding.TABLE, np.float32),
        (Encoding.TABLE, np.float64), (Encoding.BITCAST, np.float64)]  # fmt: skip
SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -(2.0**-130), 3e38, 2.0**-149, 2.0**-127, 2.0**-126)


def near_powers(dtype: type[np.floating]) -> Array:
    powers = np.array([2.0**k for k in (-149, -128, -127, -126, -125, -60, -1, 0, 1, 60, 125, 126, 127)], np.float64)
    centres = np.concatenate([powers, powers * 1.5, powers * 1.25]).astype(dtype)
    inf = np.array(np.inf, dtype)
    return np.unique(np.concatenate([centres, np.nextafter(centres, inf), np.nextafter(centres, -inf)]))


def check_codes(policy: NarrowPolicy, sequence: Encoding, dtype: type[np.floating]) -> None:
    to, values = DataType.FLOAT8E8M0, np.concatenate([near_powers(dtype), np.array(SPECIALS, dtype)])
    model = sequence_model(
        lambda build, x: encode(build, x, to, policy, sequence),
        DataType.from_numpy(values.dtype),
        24 if sequence is Encoding.LADDER else 26,
    )
    (codes,) = run(session(model, LEVELS[0]), {"x": values})
    wrong = codes != encode_array(values, to, policy)
    assert not wrong.any(), f"{values[wrong]} give {codes[wrong]}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_policy_of_a_scale() -> None:
    check_all(check_codes, [(policy, *way) for policy in POLICIES for way in WAYS])


def test_codes_of_a_type_below_its_first_opset() -> None:
    """A lowering keeps the opset of the model, which may lack the type."""
    one = np.array([1.0], np.float32)
    assert encode_array(one, DataType.FLOAT8E8M0, NarrowPolicy(opset=13)).tolist() == [127]
