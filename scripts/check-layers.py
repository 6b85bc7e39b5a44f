#!/usr/bin/env python3
"""Checks who may know whom (docs/explanation/architecture.md), and that each file has a licence.

- core knows nobody. bpf and core's tests know core.
- imtcp-common knows nobody. imtcp-bpf knows bpf's shared header.
- imtcp-client and imtcp-logs know neither BPF nor a program; imtcp-advice knows no BPF.
- imtcp knows neither the service nor its wire: it runs the program that does.
- proftpd speaks to the service over the wire alone.
- The laboratory runs built programs, and nothing imports it.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
#: Headers that each C part may include, by the beginning of the path.
C_MAY_INCLUDE = {
    "core/include/": ("imtcp/", "types.h", "fixed.h", "params.h", "filter.h", "delay.h", "stream.h",
                      "gap.h", "meas", "control.h", "facts.h", "estimate.h", "flow.h", "cc_",
                      "stdint.h"),
    "bpf/": ("imtcp/", "imtcp_", "bpf/", "stdint.h"),
    "proftpd/": ("mod_imtcp.h", "imtcp_arrived.h", "conf.h", "privs.h", "curl/", "json-c/",
                 "linux/", "netinet/", "sys/", "ctype.h", "stdbool.h", "time.h"),
}  # fmt: skip
#: Dependencies within the workspace, by crate.
CRATES_MAY_USE = {
    "imtcp-common": set(),
    "imtcp-bpf": {"imtcp-common"},
    "imtcp": {"imtcp-bpf", "imtcp-common"},
    "imtcp-client": {"imtcp-common"},
    "imtcp-logs": {"imtcp-common", "imtcp-client"},
    "imtcp-advice": {"imtcp-common", "imtcp-client", "imtcp-logs"},
    "imtcp-agent": {"imtcp-common", "imtcp-bpf", "imtcp-client", "imtcp-logs"},
    "imtcp-test-support": {"imtcp", "imtcp-bpf", "imtcp-common"},
    "imtcp-load": set(),
}
WITH_LICENCE = (".c", ".h")
IMPORTS_LAB = re.compile(r"^\s*(from|import) imtcp_lab", re.MULTILINE)


def tracked() -> list[str]:
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return out.stdout.split("\n")[:-1]


def c_faults(files: list[str]) -> list[str]:
    faults = []
    for name in files:
        for part, allowed in C_MAY_INCLUDE.items():
            if name.startswith(part) and name.endswith((".c", ".h")):
                for header in INCLUDE.findall((ROOT / name).read_text()):
                    if not header.startswith(allowed):
                        faults.append(f"{name}: may not include {header}")
    return faults


def crate_faults() -> list[str]:
    faults = []
    for manifest in [*ROOT.glob("crates/*/Cargo.toml"), ROOT / "lab/load/Cargo.toml"]:
        # What tests use is another matter.
        text = manifest.read_text().split("\n[dev-dependencies]")[0]
        name = re.search(r'^name *= *"([^"]+)"', text, re.MULTILINE)[1]
        if name not in CRATES_MAY_USE:
            faults.append(f"{manifest.relative_to(ROOT)}: {name} is not in scripts/check-layers.py")
            continue
        for other in CRATES_MAY_USE:
            used = re.search(rf"^{re.escape(other)}\b *(=|\.)", text, re.MULTILINE)
            if other != name and used and other not in CRATES_MAY_USE[name]:
                faults.append(f"{manifest.relative_to(ROOT)}: {name} may not use {other}")
    return faults


def other_faults(files: list[str]) -> list[str]:
    faults = []
    for name in files:
        if name.endswith(WITH_LICENCE) and "SPDX-License-Identifier" not in (ROOT / name).read_text(
            errors="replace"
        ):
            faults.append(f"{name}: no SPDX-License-Identifier")
        outside = name.endswith(".py") and not name.startswith(("lab/", "tests/"))
        if outside and IMPORTS_LAB.search((ROOT / name).read_text()):
            faults.append(f"{name}: nothing outside of lab and tests imports the laboratory")
    return faults


def main() -> int:
    files = [name for name in tracked() if (ROOT / name).is_file()]
    faults = c_faults(files) + crate_faults() + other_faults(files)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
