"""A digest of casts between all numeric types: two machines, or two sets of processor features, print the same.

NPY_DISABLE_CPU_FEATURES="X86_V4" python -m tests.numerics.cast.digest
"""

from __future__ import annotations

import hashlib
import sys

import numpy as np

from castsmith.numerics.cast.convert import cast
from tests.numerics import oracle

SIZE = 1 << 13


def arrays(source: str) -> list[np.ndarray]:
    """Every code or random ones, and numbers of moderate size alone."""
    generator = np.random.default_rng(0)
    if source in oracle.NARROW_TYPES:
        codes = np.array(oracle.all_codes(source), oracle.unsigned(source))
    else:
        codes = generator.integers(0, 2**64, SIZE, dtype=np.uint64).astype(oracle.unsigned(source))
    moderate = cast(generator.uniform(-120, 120, SIZE), source)
    return [oracle.array_of(source, codes), moderate, cast(np.abs(moderate.astype(np.float64)), source)]


def digest() -> str:
    """Return the SHA-256 of all results."""
    found = hashlib.sha256()
    for source in oracle.TYPES:
        for array in arrays(source):
            for target in oracle.TYPES:
                found.update(cast(array, target).tobytes())
    return found.hexdigest()


def main() -> int:
    print(digest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
