"""The tarball: the binary, its manual pages and completions, and what it takes to run it as a service or in a container."""

import gzip
import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

from platforms import Platform

PACKAGING = Path(__file__).parent
REPOSITORY = PACKAGING.parent
# What each shell calls the file with the completions of a command.
COMPLETIONS = {"bash": "handback", "zsh": "_handback", "fish": "handback.fish"}


def make(binary: Path, platform: Platform, version: str, out: Path) -> Path:
    name = f"handback-{version}-{platform.target}"
    archive = out / f"{name}.tar.gz"
    with tempfile.TemporaryDirectory() as folder:
        files = {"handback": binary, **_written_by(binary, Path(folder))}
        for file in ("README.md", "LICENSE-MIT", "LICENSE-APACHE"):
            files[file] = REPOSITORY / file
        for file in ("Dockerfile", "handback.service"):
            files[file] = PACKAGING / file
        _pack(archive, {f"{name}/{inside}": path for inside, path in sorted(files.items())}, binary)
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    archive.with_name(f"{archive.name}.sha256").write_text(f"{checksum}  {archive.name}\n")
    return archive


def _written_by(binary: Path, folder: Path) -> dict[str, Path]:
    """The manual pages and the completions, which the binary writes itself."""
    manual = folder / "man"
    subprocess.run([binary, "man", manual], check=True)
    written = {f"man/man1/{page.name}": page for page in manual.iterdir()}
    for shell, name in COMPLETIONS.items():
        script = folder / name
        script.write_bytes(subprocess.run([binary, "completions", shell], check=True, stdout=subprocess.PIPE).stdout)
        written[f"completions/{shell}/{name}"] = script
    return written


def _pack(archive: Path, files: dict[str, Path], binary: Path) -> None:
    """Writes the same bytes from the same files, whoever packs them and whenever."""
    with archive.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for name, path in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = path.stat().st_size
                entry.mode = 0o755 if path == binary else 0o644
                with path.open("rb") as content:
                    tar.addfile(entry, content)
