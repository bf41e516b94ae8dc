"""Options of the library in the words of the command line."""

from __future__ import annotations

from castsmith.cli.wording import with_command_options
from tests.sampling import check_all

SENTENCES = [
    ("`promote_unsafe` is needed, or `u64_integer_promotion_target`",
     "--promote-unsafe is needed, or --u64-integer-promotion-target"),
    ("pass `interface='wide'`, or `storage=`", "pass --interface wide, or --storage"),
    ("`seconds=`, `dims=`, `shapes=` and `inputs=`",
     "--time-limit, --dim NAME=SIZE, --shape NAME=1x512 and --inputs FILE.npz"),
    ("use `optimize(target='qonnx')`", "use optimize --target qonnx"),
    ("`convert(to='float16', keep=('Relu', 'op:*'), max_error=0.5)`",
     "convert --to float16 --keep Relu --keep 'op:*' --max-error 0.5"),
    ("`fit(exact=True, target='a b')`", "fit --exact --target 'a b'"),
    ("`optimize(promotion=PromotionRules(promote_unsafe=True, u64_integer_promotion_target='double'))`",
     "optimize --promote-unsafe --u64-integer-promotion-target double"),
    *((other, other) for other in ("`x`", "`Relu`", "`a b_c`", "promote_unsafe")),
]  # fmt: skip


def require_words(sentence: str, said: str) -> None:
    assert with_command_options(sentence) == said


def test_sentences() -> None:
    check_all(require_words, SENTENCES)
