"""A small model in a wheel, and a stand-in for pip that serves it."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from treegraft.models.fetch import NEEDED_FILES, WheelModel

GGUF = b"GGUF" + bytes(range(256)) * 40
MEMBER = "pack/model.gguf"


def write_wheel(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return path


def wheel_model(wheel: Path, **changes) -> WheelModel:
    """The description of a wheel that holds `GGUF` as `MEMBER`, with some fields changed."""
    return WheelModel(**({
        "name": "small", "requirement": "pack==1.0", "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "wheel_bytes": wheel.stat().st_size, "member": MEMBER, "gguf_sha256": hashlib.sha256(GGUF).hexdigest(),
        "gguf_bytes": len(GGUF), "stored_bytes": 1000, "licence": "Apache-2.0", "form": "test-1"} | changes))


def fake_convert(gguf: Path, folder: Path) -> None:
    """Store what the model came from instead of converting it."""
    folder.mkdir()
    for name in NEEDED_FILES:
        (folder / name).write_bytes(gguf.read_bytes())
