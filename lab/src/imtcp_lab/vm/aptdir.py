"""A private apt directory with Debian 12's suites, from the machine's own mirrors.

On a newer Debian, apt's archives lack the older kernel series, but the same mirrors carry Debian
12's suites.  The package lists go into the cache; the system's apt stays as it is.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from imtcp_lab.engine import paths
from imtcp_lab.job import LabError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITE = "bookworm"


def run(command: list[str], cwd: Path | None = None) -> str:
    """Runs a package tool; returns its output, or raises :class:`LabError` with its message."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise LabError(f"{command[0]} is missing (this is not a Debian system)") from None
    if done.returncode != 0:
        complaint = (done.stderr or done.stdout).strip().splitlines()
        raise LabError(f"{command[0]}: {complaint[-1] if complaint else 'failed'}")
    return done.stdout


def system_options() -> list[str]:
    """Options for the machine's own archives: none."""
    return []


def mirrors(etc: Path = Path("/etc/apt")) -> dict[str, str]:
    """Mirror URIs of this machine, for the main suite (``main``) and ``security``."""
    found: dict[str, str] = {}
    for uri, suite in _entries(etc):
        if suite.endswith("-security"):
            found.setdefault("security", uri)
        elif re.fullmatch(r"[a-z]+", suite) and "debian" in uri:
            found.setdefault("main", uri)
    return found


def _entries(etc: Path) -> Iterator[tuple[str, str]]:
    """(URI, suite) of every binary archive, from both of apt's file formats."""
    directory = etc / "sources.list.d"
    for path in [etc / "sources.list", *sorted(directory.glob("*.list"))]:
        if path.is_file():
            for line in path.read_text().splitlines():
                match = re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)", line.strip())
                if match:
                    yield match[1], match[2]
    for path in sorted(directory.glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            lines = [line for line in stanza.splitlines() if not line.startswith("#")]
            fields = dict(line.split(":", 1) for line in lines if ":" in line)
            keys = {key.strip().lower(): value.split() for key, value in fields.items()}
            if "deb" in keys.get("types", []) and keys.get("enabled") != ["no"]:
                for uri in keys.get("uris", []):
                    for suite in keys.get("suites", []):
                        yield uri, suite


def sources(known: dict[str, str], keyring: Path = KEYRING) -> str:
    """The text of a sources.list with Debian 12's suites on these mirrors."""
    lines = []
    signed = f"[arch=amd64 signed-by={keyring}]"
    if "main" in known:
        lines += [f"deb {signed} {known['main']} {s} main" for s in (SUITE, f"{SUITE}-updates")]
    if "security" in known:
        lines.append(f"deb {signed} {known['security']} {SUITE}-security main")
    if not lines:
        raise LabError("no Debian mirror in this machine's apt sources")
    return "\n".join(lines) + "\n"


def bookworm_options() -> list[str]:
    """Options that make apt use the private directory, with fresh lists."""
    text = sources(mirrors())
    root = paths.cache() / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "sources.list").write_text(text)
    (root / "status").touch()
    settings = {
        "Dir::Etc::SourceList": root / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": root / "lists",
        "Dir::State::Status": root / "status",
        "Dir::Cache": root / "cache",
        "APT::Architecture": "amd64",
        "Acquire::Languages": "none",
    }
    options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
    if os.geteuid() == 0:
        options += ["-o", "APT::Sandbox::User=root"]
    run(["apt-get", *options, "-q", "update"])
    return options
