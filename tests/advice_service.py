"""Starts the real advice service for a test."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from built import ADVICE

ROOT = Path(__file__).resolve().parent.parent
WRITE_TOKEN = "a-token-for-the-tests"
READ_TOKEN = "a-token-for-readers"


@contextlib.contextmanager
def running_service(home: Path, *options: str, reading_needs_token: bool = False) -> Iterator[str]:
    """The URL of a service with a history of its own; at the end it must still run."""
    command = [ADVICE, "serve", "--db", home / "history.db", "--listen", "127.0.0.1:0"]
    # No packet leaves the machine.
    command += ["--no-ping"]
    tokens = {"--token-file": WRITE_TOKEN}
    if reading_needs_token:
        tokens["--read-token-file"] = READ_TOKEN
    for option, token in tokens.items():
        file = home / option.strip("-")
        file.write_text(token)
        file.chmod(0o600)
        command += [option, file]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout
            line = service.stdout.readline()
            found = re.search(r"http://\S+(?=/)", line)
            assert found, f"the service does not say where it is: {line!r}"
            yield found[0]
            assert service.poll() is None, "the service has ended"
        finally:
            service.terminate()
