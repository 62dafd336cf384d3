"""The wheel `handback-server`: the binary as a command, for pip, pipx and uv."""

import base64
import hashlib
import re
import zipfile
from pathlib import Path

from pages import Pages
from platforms import Platform

REPOSITORY = Path(__file__).parent.parent
NAME = "handback_server"

METADATA = """\
Metadata-Version: 2.4
Name: handback-server
Version: {version}
Summary: Tools that run on the client: the server and its command line
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
Keywords: llm,agents,tools,ag-ui,server
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: handback packaging/wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""


# Where each shell looks for the completions that packages install.
COMPLETIONS = {"bash": "bash-completion/completions", "zsh": "zsh/site-functions", "fish": "fish/vendor_completions.d"}
# The names that versions of Rust and of Python have for a version before a release.
BEFORE_RELEASE = {"alpha": "a", "beta": "b", "rc": "rc"}


def make(binary: Path, platform: Platform, version: str, pages: Pages, out: Path) -> Path:
    version = _version(version)
    tag = f"py3-none-{platform.wheel_tag(binary)}"
    info = f"{NAME}-{version}.dist-info"
    readme = (REPOSITORY / "crates/cli/README.md").read_text()
    data = f"{NAME}-{version}.data"
    shared = {f"man/man1/{page.name}": page for page in pages.manual}
    shared |= {f"{COMPLETIONS[shell]}/{script.name}": script for shell, script in pages.completions.items()}
    files = {
        f"{data}/scripts/handback": binary.read_bytes(),
        **{f"{data}/data/share/{name}": path.read_bytes() for name, path in shared.items()},
        f"{info}/METADATA": METADATA.format(version=version, readme=readme).encode(),
        f"{info}/WHEEL": WHEEL.format(tag=tag).encode(),
        f"{info}/licenses/LICENSE-MIT": (REPOSITORY / "LICENSE-MIT").read_bytes(),
        f"{info}/licenses/LICENSE-APACHE": (REPOSITORY / "LICENSE-APACHE").read_bytes(),
    }
    record = "".join(f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = out / f"{NAME}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # The time is fixed, so that the same files give the same bytes.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return wheel


def _version(version: str) -> str:
    """The version as Python writes it: 0.2.0rc1 for 0.2.0-rc.1."""
    found = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.(\d+))?", version)
    if not found:
        raise SystemExit(f"{version} is not a version that a wheel can have: it is 1.2.3, 1.2.3-alpha.1, 1.2.3-beta.1 or 1.2.3-rc.1")
    release, stage, number = found.groups()
    return f"{release}{BEFORE_RELEASE[stage]}{number}" if stage else release


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
