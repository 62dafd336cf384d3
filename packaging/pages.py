"""The manual pages and the completions, which the binary writes itself."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

# What each shell calls the file with the completions of a command.
NAMES = {"bash": "handback", "zsh": "_handback", "fish": "handback.fish"}


@dataclass(frozen=True)
class Pages:
    manual: list[Path]
    completions: dict[str, Path]
    """The script of each shell."""


def write(binary: Path, folder: Path) -> Pages:
    """Has the binary write them into a folder."""
    manual = folder / "man"
    subprocess.run([binary, "man", manual], check=True)
    completions = {}
    for shell, name in NAMES.items():
        completions[shell] = folder / name
        with completions[shell].open("wb") as script:
            subprocess.run([binary, "completions", shell], check=True, stdout=script)
    return Pages(sorted(manual.iterdir()), completions)
