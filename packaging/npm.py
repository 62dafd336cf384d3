"""The npm packages: one with the binary of each platform, and `handback`, which starts the right one."""

import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from platforms import Platform

REPOSITORY = Path(__file__).parent.parent
LAUNCHER = Path(__file__).parent / "npm"
LICENCES = ("LICENSE-MIT", "LICENSE-APACHE")


def platform_package(binary: Path, platform: Platform, version: str, out: Path) -> Path:
    description = {
        "name": platform.npm_package,
        "version": version,
        "description": f"The binary of handback for {platform.target}",
        "license": "MIT OR Apache-2.0",
        "os": [platform.os],
        "cpu": [platform.cpu],
        # Package managers that keep packages in archives must unpack this one: a binary in an archive cannot be run.
        "preferUnplugged": True,
        "engines": {"node": ">=20.15"},
    }
    if platform.os == "linux":
        description["libc"] = ["glibc"]
    readme = f"The `handback` binary for {platform.target}. Install the package `handback`, which brings this one along.\n"
    return _pack(out, {"bin/handback": binary}, description, readme)


def launcher(out: Path) -> Path:
    """The package `handback`, for the platforms whose packages are in the folder. It has the manual pages: npm installs those of
    the package that is asked for, and not those of the packages that come along."""
    description = json.loads((LAUNCHER / "package.json").read_text())
    found = [_description(package) for package in sorted(out.glob("handback-*.tgz"))]
    platforms = [package for package in found if "cpu" in package]
    if not platforms:
        raise SystemExit(f"{out} has no npm package with a binary: run `packaging/make.py binary` for each platform first")
    versions = {package["version"] for package in platforms}
    if len(versions) > 1:
        raise SystemExit(f"{out} has packages of several versions ({', '.join(sorted(versions))}): remove those that are old")
    description["version"] = versions.pop()
    description["optionalDependencies"] = {package["name"]: package["version"] for package in platforms}
    files = {file: LAUNCHER / file for file in ("bin/handback.js", "binary.js")}
    with tempfile.TemporaryDirectory() as folder:
        manual = {f"man/{page.name}": page for page in _manual(out, description["version"], Path(folder))}
        description["man"] = list(manual)
        return _pack(out, files | manual, description, (LAUNCHER / "README.md").read_text())


def _manual(out: Path, version: str, folder: Path) -> list[Path]:
    """The manual pages, unpacked from a tarball of this version: they are the same for all platforms."""
    tarballs = sorted(out.glob(f"handback-{version}-*.tar.gz"))
    if not tarballs:
        raise SystemExit(f"{out} has no tarball of {version}: run `packaging/make.py binary` first")
    pages = []
    with tarfile.open(tarballs[0]) as tar:
        for member in tar:
            if "/man/man1/" in member.name:
                pages.append(folder / Path(member.name).name)
                pages[-1].write_bytes(tar.extractfile(member).read())
    return pages


def _pack(out: Path, files: dict[str, Path], description: dict, readme: str) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for inside, path in [*files.items(), *((name, REPOSITORY / name) for name in LICENCES)]:
            (root / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / inside)
        (root / "package.json").write_text(json.dumps(description, indent=2) + "\n")
        (root / "README.md").write_text(readme)
        command = ["npm", "pack", "--silent", "--pack-destination", str(out.resolve())]
        packed = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return out / packed.stdout.split()[-1]


def _description(package: Path) -> dict:
    """The package.json in a package."""
    with tarfile.open(package) as tar:
        return json.load(tar.extractfile("package/package.json"))
