"""A fuzzer against the published description of the advice service's interface."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IMTCP = os.environ.get("IMTCP_BIN", str(ROOT / "target" / "release" / "imtcp"))
TOKEN = "a-token-for-the-tests"
SCHEMATHESIS = shutil.which("schemathesis") or shutil.which(
    "schemathesis", path=str(Path(sys.executable).parent)
)


@pytest.mark.skipif(SCHEMATHESIS is None, reason="needs schemathesis: scripts/lab-env.sh tests")
def test_what_the_description_says_holds_for_all_requests(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    tokens.chmod(0o600)
    serve = [IMTCP, "advice", "serve", "--db", tmp_path / "history.db", "--listen", "127.0.0.1:0"]
    more = ["--token-file", tokens, "--rate-limit", "0"]
    with subprocess.Popen([*serve, *more], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout
        url = re.search(r"http://\S+/", service.stdout.readline())[0]
        fuzz = [SCHEMATHESIS, "run", f"{url}openapi.json", "--seed", "1", "--max-examples", "50"]
        # Some rules no schema can say (from lies before to): valid by the schema is not always
        # valid. Everything else is checked: no 5xx, only what is described, nothing accepted
        # that the schema forbids.
        fuzz += ["--checks", "all", "--exclude-checks", "positive_data_acceptance"]
        header = f"Authorization: Bearer {TOKEN}"
        done = subprocess.run(
            [*fuzz, "--header", header], capture_output=True, text=True, cwd=tmp_path, timeout=300
        )
        alive = service.poll() is None
        service.terminate()
    assert done.returncode == 0, done.stdout[-5000:]
    assert alive, "the service has ended"
