"""What Castsmith has to know about the devices of Acme.

The entry points in pyproject.toml name what is here.
"""

from pathlib import Path

TARGET = Path(__file__).with_name("acme-npu.json")
PROMOTION = Path(__file__).with_name("acme-promotion.json")
