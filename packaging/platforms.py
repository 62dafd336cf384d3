"""What a package has to say about the machine that its binary runs on. It is read from the binary, not assumed."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Libraries that every Linux with glibc has, by the rules of the manylinux tags.
EVERYWHERE = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux[-\w]*)\.so\.\d+")


# Where a linker packs relative relocations, it asks for this instead of a version: what first reads them is glibc 2.36.
PACKED_RELOCATIONS, READS_PACKED_RELOCATIONS = "GLIBC_ABI_DT_RELR", (2, 36)


@dataclass(frozen=True)
class Platform:
    """One target that packages are made for."""

    target: str
    """The name that Rust has for it."""
    os: str
    """The name that npm has for the system; `cpu` is that of the processor."""
    cpu: str

    @property
    def npm_package(self) -> str:
        return f"@handback/{self.os}-{self.cpu}"

    def wheel_tag(self, binary: Path) -> str:
        """The oldest system that the binary runs on, as names of wheels have it."""
        processor = self.target.split("-")[0]
        if self.os == "darwin":
            major, minor = _oldest_macos(binary)
            return f"macosx_{major}_{minor}_{'arm64' if processor == 'aarch64' else processor}"
        major, minor = oldest_glibc(binary)
        return f"manylinux_{major}_{minor}_{processor}"


PLATFORMS = {
    platform.target: platform
    for platform in (
        Platform("x86_64-unknown-linux-gnu", "linux", "x64"),
        Platform("aarch64-unknown-linux-gnu", "linux", "arm64"),
        Platform("x86_64-apple-darwin", "darwin", "x64"),
        Platform("aarch64-apple-darwin", "darwin", "arm64"),
    )
}


def oldest_glibc(binary: Path) -> tuple[int, int]:
    """The newest version of glibc that the binary asks for. Fails if it needs a library that not every Linux has."""
    headers = _printed("objdump", "-p", str(binary))
    for library in re.findall(r"^\s+NEEDED\s+(\S+)$", headers, re.MULTILINE):
        if not EVERYWHERE.fullmatch(library):
            raise SystemExit(f"{binary} needs {library}, which not every Linux has: link it statically")
    versions = [(int(major), int(minor)) for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", headers)]
    if PACKED_RELOCATIONS in headers:
        versions.append(READS_PACKED_RELOCATIONS)
    if not versions:
        raise SystemExit(f"{binary} asks for no version of glibc: it is not a binary of a target that ends with -linux-gnu")
    return max(versions)


def _oldest_macos(binary: Path) -> tuple[int, int]:
    commands = _printed("otool", "-l", str(binary))
    # Newer linkers write `minos`; older ones write a command of its own, whose `version` it is.
    found = re.search(r"\bminos (\d+)\.(\d+)", commands) or re.search(r"LC_VERSION_MIN_MACOSX\n.*\n\s+version (\d+)\.(\d+)", commands)
    if not found:
        raise SystemExit(f"{binary} does not say which macOS it needs: it is not a binary for macOS")
    major, minor = (int(part) for part in found.groups())
    # From macOS 11 on, wheels are named by the major version alone.
    return (major, 0) if major >= 11 else (major, minor)


def _printed(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
