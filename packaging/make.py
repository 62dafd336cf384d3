#!/usr/bin/env python3
"""Makes the files from which Handback is installed.

    packaging/make.py binary BINARY --target TARGET --out FOLDER
    packaging/make.py launcher --out FOLDER

`binary` packages one binary for the machines that it runs on: a tarball with its checksum, an npm package and a wheel. `launcher`
comes last: it makes the npm package `handback`, which picks the right one of the npm packages that are in the folder.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import npm
import pages
import tarball
import wheel
from platforms import PLATFORMS


def version_of(binary: Path) -> str:
    printed = subprocess.run([binary, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return printed.split()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_binary = commands.add_parser("binary", help="packages one binary")
    of_binary.add_argument("binary", type=Path, help="the binary, stripped; it runs on this machine")
    of_binary.add_argument("--target", required=True, choices=PLATFORMS, help="the target that it was built for")
    of_binary.add_argument("--out", type=Path, required=True, help="the folder for the packages")
    of_launcher = commands.add_parser("launcher", help="makes the npm package that picks a binary")
    of_launcher.add_argument("--out", type=Path, required=True, help="the folder with the npm packages of the binaries")
    arguments = parser.parse_args()

    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.command == "launcher":
        print(npm.launcher(arguments.out))
        return
    binary, platform = arguments.binary.resolve(), PLATFORMS[arguments.target]
    version = version_of(binary)
    with tempfile.TemporaryDirectory() as folder:
        written = pages.write(binary, Path(folder))
        print(tarball.make(binary, platform, version, written, arguments.out))
        print(wheel.make(binary, platform, version, written, arguments.out))
    print(npm.platform_package(binary, platform, version, arguments.out))


if __name__ == "__main__":
    main()
