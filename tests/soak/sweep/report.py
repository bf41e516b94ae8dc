"""The report of a sweep: what is wrong by kind, how results compare, and each refusal."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.soak.sweep.processes import Judged

KINDS = (
    "crash",
    "internal error",
    "valid -> invalid",
    "loading -> not loading",
    "interface",
    "bits",
    "check",
    "modified",
    "idempotence",
    "casts",
)


@dataclass
class Report:
    """Everything that was judged."""

    models: list[Judged] = field(default_factory=list[Judged])

    def add(self, judged: Judged) -> None:
        """Take what was found for one model, and print what is wrong with it."""
        self.models.append(judged)
        for kind, model, target, text in _problems(judged):
            print(f"{kind}: {model} [{target}]: {text}", flush=True)

    @property
    def wrong(self) -> bool:
        return any(_problems(model) for model in self.models)

    def print(self, *, refusals: bool) -> None:
        problems = [each for model in self.models for each in _problems(model)]
        judgements = [each for model in self.models for each in model.judgements]
        if refusals:
            for model in self.models:
                for each in model.judgements:
                    for text in each.refusals:
                        print(f"refused: {model.name} [{each.target or 'none'}]: {text}")
        counts = Counter(kind for kind, *_ in problems)
        bits = Counter(each.bits for each in judgements)
        print(f"models: {len(self.models)}, judgements: {len(judgements)}")
        print(f"rewrites: {sum(each.rewrites for each in judgements)}")
        print(f"refused whole: {sum(each.whole for each in judgements)}")
        print(f"refusals: {sum(len(each.refusals) for each in judgements)}")
        print("bits: " + ", ".join(f"{how} {count}" for how, count in sorted(bits.items())))
        print("wrong: " + ", ".join(f"{kind} {counts[kind]}" for kind in KINDS))

    def data(self) -> list[dict[str, Any]]:
        return [asdict(model) for model in self.models]


def _problems(model: Judged) -> list[tuple[str, str, str, str]]:
    """(kind, model, target, text) of everything that is wrong with the model."""
    found = [("crash", model.name, "", model.crash)] if model.crash else []
    for each in model.judgements:
        found += [(kind, model.name, each.target or "none", text) for kind, text in each.problems]
    return found
