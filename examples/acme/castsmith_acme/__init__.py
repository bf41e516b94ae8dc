"""What Castsmith has to know about the devices of Acme; pyproject.toml names it as entry points."""

from pathlib import Path

TARGET = Path(__file__).with_name("acme-npu.json")
PROMOTION = Path(__file__).with_name("acme-promotion.json")
