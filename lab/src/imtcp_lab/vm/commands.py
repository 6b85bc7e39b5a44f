"""``lab vm``: run, build, status, clean."""

from __future__ import annotations

import argparse
import json
import time

from imtcp_lab.engine import joboptions, paths
from imtcp_lab.job import LabError, MissingPrerequisite
from imtcp_lab.vm import (
    DEFAULT_KERNEL,
    DEFAULT_MEMORY_MB,
    FAST,
    KERNELS,
    VmRunner,
    get_kernel,
    guests_of,
    kernels,
    qemu,
    snapshot,
    uml_kernel,
)

RUN_HELP = """\
Run a shell script on a stock Debian kernel in virtual time.  The same script,
files and seed give the same bytes on every run.  The script finds its inputs in
its work directory, the seed in $SEED, and leaves results in $OUT.

example:
  lab vm run --kernel 6.1 --seed 7 --file data.bin --out out/try try.sh
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``vm`` and its commands."""
    vm = subparsers.add_parser(
        "vm",
        help="the virtual-time kernel VM",
        description="Boot stock Debian kernels in virtual time and run scripts in them.",
    )
    commands = vm.add_subparsers(dest="vm_command", metavar="COMMAND", required=True)
    raw = argparse.RawDescriptionHelpFormatter

    run = commands.add_parser("run", help="run a script", description=RUN_HELP, formatter_class=raw)
    joboptions.add_arguments(run, "virtual seconds")
    _add_machine(run)
    run.add_argument(
        "--kernel", choices=KERNELS, default=DEFAULT_KERNEL, help="kernel series, or uml"
    )
    run.set_defaults(handler=_run)

    build = commands.add_parser(
        "build",
        help="fetch kernels and make snapshots",
        description="Fetch the kernels and boot each once, so that runs start at once.\n\n"
        "example:\n  lab vm build --kernel 6.12 --update",
        formatter_class=raw,
    )
    build.add_argument(
        "--kernel",
        choices=KERNELS,
        action="append",
        help="kernel series, or uml, which is built here (default: all series)",
    )
    build.add_argument(
        "--fetch-only",
        action="store_true",
        help="boot nothing: what can be done before imtcp is built",
    )
    build.add_argument("--update", action="store_true", help="look for newer point releases")
    _add_machine(build)
    joboptions.add_json(build)
    build.set_defaults(handler=_build)

    status = commands.add_parser(
        "status",
        help="say what is cached",
        description="Show QEMU, kernels and snapshots.\n\nexample:\n  lab vm status --json",
        formatter_class=raw,
    )
    joboptions.add_json(status)
    status.set_defaults(handler=_status)

    clean = commands.add_parser(
        "clean",
        help="remove snapshots",
        description="Remove the snapshots; a later run boots again.\n\n"
        "example:\n  lab vm clean --kernels",
        formatter_class=raw,
    )
    clean.add_argument("--kernels", action="store_true", help="remove the kernels, too")
    joboptions.add_json(clean)
    clean.set_defaults(handler=_clean)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--memory-mb",
        metavar="N",
        type=joboptions.natural,
        default=DEFAULT_MEMORY_MB,
        help=f"memory of the guest in MiB (default {DEFAULT_MEMORY_MB})",
    )


def _run(args: argparse.Namespace) -> int:
    return joboptions.run_and_report(args, guests_of(args.kernel, args.memory_mb), "virtual s")


def _build(args: argparse.Namespace) -> int:
    rows: list[dict[str, object]] = []
    code = 0
    for series in args.kernel or kernels.SERIES:
        started = time.monotonic()
        row: dict[str, object] = {"series": series}
        try:
            kernel = get_kernel(series, update=args.update)
            row.update(kernel=kernel.release, kernel_package=kernel.package_version)
            if not args.fetch_only and series != FAST:
                saved = VmRunner(kernel=series, memory_mb=args.memory_mb).prepare()
                row.update(saved.environment, snapshot=str(saved.path))
        except MissingPrerequisite as error:
            row["error"] = str(error)
            code = 3
        row["wall_s"] = round(time.monotonic() - started, 2)
        rows.append(row)
        if not args.json:
            done = "is there" if args.fetch_only else "is ready"
            what = row.get("error") or f"{row['kernel']} {done}"
            print(f"{series}: {what} ({row['wall_s']} s)")
    if args.json:
        print(json.dumps(rows, indent=1))
    return code


def _status(args: argparse.Namespace) -> int:
    try:
        emulator = qemu.version()
    except LabError as error:
        emulator = str(error)
    found = {series: kernels.cached(series) for series in kernels.SERIES}
    found[FAST] = uml_kernel.cached()
    about = {
        "qemu": emulator,
        "cache": str(paths.cache()),
        "kernels": {series: k.release if k else None for series, k in found.items()},
        "kernels_bytes": kernels.size_bytes(),
        "snapshots": snapshot.listing(),
    }
    if args.json:
        print(json.dumps(about, indent=1))
        return 0
    print(f"QEMU      {emulator}\ncache     {about['cache']}")
    for series, kernel in found.items():
        is_there = kernel.release if kernel else f"not there: lab vm build --kernel {series}"
        print(f"kernel    {series:5} {is_there}")
    for saved in snapshot.listing():
        size_mb = int(str(saved["bytes"])) / 1e6
        print(
            f"snapshot  {saved['series']!s:5} {saved['memory_mb']} MiB guest, "
            f"{size_mb:.0f} MB on disk, booted in {saved['boot_wall_s']} s"
        )
    return 0


def _clean(args: argparse.Namespace) -> int:
    removed = snapshot.prune(keep=0)
    if args.kernels:
        kernels.remove_all()
    if args.json:
        print(json.dumps({"snapshots_removed": removed, "kernels_removed": bool(args.kernels)}))
    else:
        print(f"{removed} snapshots removed{', and the kernels' if args.kernels else ''}")
    return 0
