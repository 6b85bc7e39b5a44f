"""The programs under test. IMTCP_BIN names another `imtcp`, which has the others beside it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMTCP = os.environ.get("IMTCP_BIN", str(ROOT / "target" / "release" / "imtcp"))
ADVICE = str(Path(IMTCP).with_name("imtcp-advice"))
AGENT = str(Path(IMTCP).with_name("imtcp-agent"))
