"""The tarball: the binary, its manual pages and completions, and what it takes to run it as a service or in a container."""

import gzip
import hashlib
import sys
import tarfile
from pathlib import Path

from pages import Pages
from platforms import Platform, oldest_glibc

PACKAGING = Path(__file__).parent
REPOSITORY = PACKAGING.parent
# What the image is built from, and the glibc that it has.
BASE, GLIBC_OF_BASE = "FROM debian:12-slim\n", (2, 36)


def make(binary: Path, platform: Platform, version: str, pages: Pages, out: Path) -> Path:
    name = f"handback-{version}-{platform.target}"
    archive = out / f"{name}.tar.gz"
    files = {"handback": binary}
    files |= {f"man/man1/{page.name}": page for page in pages.manual}
    files |= {f"completions/{shell}/{script.name}": script for shell, script in pages.completions.items()}
    files |= {file: REPOSITORY / file for file in ("README.md", "LICENSE-MIT", "LICENSE-APACHE")}
    if platform.os == "linux":
        files["handback.service"] = PACKAGING / "handback.service"
        if _runs_in_the_image(binary):
            files["Dockerfile"] = PACKAGING / "Dockerfile"
    _pack(archive, {f"{name}/{inside}": path for inside, path in sorted(files.items())}, binary)
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    archive.with_name(f"{archive.name}.sha256").write_text(f"{checksum}  {archive.name}\n")
    return archive


def _runs_in_the_image(binary: Path) -> bool:
    if BASE not in (PACKAGING / "Dockerfile").read_text():
        raise SystemExit("packaging/Dockerfile has another base: say in packaging/tarball.py which glibc it has")
    needed = oldest_glibc(binary)
    if needed > GLIBC_OF_BASE:
        needs, has = (".".join(map(str, version)) for version in (needed, GLIBC_OF_BASE))
        print(f"the tarball has no Dockerfile: {binary} needs glibc {needs}, and the image has {has}", file=sys.stderr)
    return needed <= GLIBC_OF_BASE


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
