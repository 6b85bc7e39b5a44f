"""``lab netns``: run, status."""

from __future__ import annotations

import argparse
import json
import os

from imtcp_lab.engine import joboptions, tools
from imtcp_lab.netns import probe
from imtcp_lab.netns.runner import NetnsRunner

RUN_HELP = """\
Run a shell script as root in private network, mount and process namespaces of
the running kernel, in real time.  The script is the same as for lab vm run.

example:
  lab netns run --out out/try try.sh
"""
#: Programs that topologies need.
QDISCS = ("netem", "fq", "fq_codel", "tbf", "htb", "prio", "pfifo")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``netns`` and its commands."""
    netns = subparsers.add_parser(
        "netns",
        help="namespaces on the running kernel",
        description="Run scripts in private namespaces of the running kernel, in real time.",
    )
    commands = netns.add_subparsers(dest="netns_command", metavar="COMMAND", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    run = commands.add_parser("run", help="run a script", description=RUN_HELP, formatter_class=raw)
    joboptions.add_arguments(run, "seconds")
    run.set_defaults(handler=_run)
    status = commands.add_parser(
        "status",
        help="say what this kernel offers",
        description="Show the queueing disciplines of this kernel and the tools of jobs.\n\n"
        "example:\n  lab netns status --json",
        formatter_class=raw,
    )
    joboptions.add_json(status)
    status.set_defaults(handler=_status)


def _run(args: argparse.Namespace) -> int:
    return joboptions.run_and_report(args, NetnsRunner(), "s")


def _status(args: argparse.Namespace) -> int:
    available = tools.find()
    about = {
        "kernel": os.uname().release,
        "qdiscs": {kind: probe.has_qdisc(kind) for kind in QDISCS},
        "delay": "netem" if probe.has_netem() else "imtcp-delayline",
        "tools": sorted(available.programs),
        "missing": list(available.missing),
    }
    if args.json:
        print(json.dumps(about, indent=1))
        return 0
    have = [kind for kind in QDISCS if probe.has_qdisc(kind)]
    print(f"kernel    {about['kernel']}\nqdiscs    {' '.join(have)}\ndelay     {about['delay']}")
    print(f"tools     {' '.join(sorted(available.programs))}")
    print(f"missing   {' '.join(available.missing) or 'nothing'}")
    return 0
