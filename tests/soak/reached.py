"""Which tests reach a line of the source, recorded by coverage while every test runs once in this process.

python -m tests.soak.reached reached.json
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import _lru_cache_wrapper  # pyright: ignore[reportPrivateUsage]
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage  # pyright: ignore[reportMissingImports]

ROOT = Path(__file__).parents[2]
PACKAGES = ("numerics", "ir", "targets", "analysis", "passes", "verification", "lowering", "conformance", "cli")
NOT_IMPORTED = ("__init__", "__main__", "worker")


@dataclass
class Reached:
    """The seconds that each test takes, and which tests reach each line, by file, relative to the root, and number.

    A test is its place in the names.
    """

    names: list[str] = field(default_factory=list[str])
    seconds: list[float] = field(default_factory=list[float])
    tests: dict[str, dict[str, list[int]]] = field(default_factory=dict[str, dict[str, list[int]]])


def caches() -> list[Any]:
    """Return the functions of Castsmith and its tests that keep their results."""
    cached = [each for each in gc.get_objects() if isinstance(each, _lru_cache_wrapper)]
    return [each for each in cached if str(getattr(each, "__module__", "")).startswith(("castsmith.", "tests."))]


class Recorder:
    """Records each test of a run of pytest, which begins without results kept from those before it."""

    def __init__(self) -> None:
        self.reached = Reached()
        sources = [f"{ROOT / each}/*" for each in PACKAGES]
        self._coverage: Any = Coverage(data_file=None, include=sources, config_file=False)
        self._caches = list[Any]()

    def pytest_collection_finish(self) -> None:
        gc.unfreeze()
        self._caches = caches()
        gc.freeze()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for each in self._caches:
            each.cache_clear()
        self._coverage.switch_context(item.nodeid)
        start = time.process_time()
        yield
        self.reached.names.append(item.nodeid)
        self.reached.seconds.append(round(time.process_time() - start, 4))

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data, places = self._coverage.get_data(), {name: place for place, name in enumerate(self.reached.names)}
        for name in data.measured_files():
            self.reached.tests[str(Path(name).relative_to(ROOT))] = {
                str(line): [places[test] for test in tests if test]
                for line, tests in data.contexts_by_lineno(name).items()
            }


def read(path: Path) -> Reached:
    return Reached(**json.loads(path.read_text()))


def breadths(reached: Reached) -> Counter[int]:
    """Return how many lines each test reaches: those that reach few are likely to be about them."""
    return Counter(test for file in reached.tests.values() for tests in file.values() for test in tests)


def modules() -> list[Path]:
    """Return the files of the modules that can be imported for what they hold."""
    paths = (path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")))
    return [path for path in paths if path.stem not in NOT_IMPORTED]


def import_all() -> None:
    """Import every module, also those that the tests import when they run."""
    for path in modules():
        import_module(f"castsmith.{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}")


def main(path: Path) -> int:
    recorder = Recorder()
    import_all()
    os.chdir(ROOT)
    code = pytest.main(["-q", "-p", "no:cacheprovider", "tests"], plugins=[recorder])
    path.write_text(json.dumps(asdict(recorder.reached)))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
