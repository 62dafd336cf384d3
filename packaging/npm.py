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
        "engines": {"node": ">=20"},
    }
    if platform.os == "linux":
        description["libc"] = ["glibc"]
    readme = f"The `handback` binary for {platform.target}. Install the package `handback`, which brings this one along.\n"
    return _pack(out, {"bin/handback": binary}, description, readme)


def launcher(out: Path) -> Path:
    """The package `handback`, for the platforms whose packages are in the folder."""
    description = json.loads((LAUNCHER / "package.json").read_text())
    found = [json.loads(_read(package)) for package in sorted(out.glob("handback-*.tgz"))]
    platforms = [package for package in found if "cpu" in package]
    if not platforms:
        raise SystemExit(f"{out} has no npm package with a binary: run `packaging/make.py binary` for each platform first")
    versions = {package["version"] for package in platforms}
    if len(versions) > 1:
        raise SystemExit(f"{out} has packages of several versions ({', '.join(sorted(versions))}): remove those that are old")
    description["version"] = versions.pop()
    description["optionalDependencies"] = {package["name"]: package["version"] for package in platforms}
    files = {file: LAUNCHER / file for file in ("bin/handback.js", "binary.js")}
    return _pack(out, files, description, (LAUNCHER / "README.md").read_text())


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


def _read(package: Path) -> str:
    """The package.json in a package."""
    with tarfile.open(package) as tar:
        content = tar.extractfile("package/package.json")
        if content is None:
            raise SystemExit(f"{package} is no npm package: it has no package.json")
        return content.read().decode()
