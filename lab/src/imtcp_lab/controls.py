"""The controls of the background, which an experiment compares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Control:
    """A behaviour of the background, or no background."""

    name: str
    #: Kernel name of the congestion control; None: no background at all.
    congestion_control: str | None
    #: Mode of ``imtcp run --mode`` for real programs; None: a control of the kernel itself.
    run_mode: str | None = None
    #: The bottleneck serves the foreground first.
    priority: bool = False
    #: The background's host paces its packets, although the control does not ask for pacing.
    paced: bool = False
    #: One line for tables and legends.
    label: str = ""
    #: Parameters of the mode, as for ``imtcp run --param``.
    params: tuple[str, ...] = ()
    #: ``imtcp run`` sets the control and also marks packets; otherwise a socket option sets it.
    by_run: bool = False
    #: ``imtcp run`` runs at the receiver; the sender has its ordinary congestion control.
    receives: bool = False
    #: The sender keeps to this share of the link, whoever else uses it.
    share: float | None = None

    @property
    def is_none(self) -> bool:
        """Nothing competes with the foreground: the reference for all other controls."""
        return self.congestion_control is None

    @property
    def must_be_allowed(self) -> bool:
        """``imtcp up`` loads it only on request."""
        return self.run_mode == "nocc"

    @property
    def needs_imtcp(self) -> bool:
        """Whether the project's BPF programs must be loaded."""
        return self.run_mode is not None


def _kernel(name: str, label: str, module: str | None = None) -> Control:
    return Control(name, congestion_control=module or name, label=label)


NONE = Control("none", None, label="no background")
PRIORITY = Control("priority", "cubic", priority=True, label="CUBIC under strict priority (ideal)")
PRIORITY_BBR = Control(
    "priority_bbr", "bbr", priority=True, label="BBR under strict priority (ideal beside loss)"
)

#: All controls by name. Those of the kernel itself are plain congestion control modules.
CONTROLS: dict[str, Control] = {
    control.name: control
    for control in (
        NONE,
        _kernel("reno", "Reno"),
        Control("reno_paced", "reno", paced=True, label="Reno, paced"),
        _kernel("cubic", "CUBIC"),
        _kernel("bbr", "BBR"),
        _kernel("vegas", "Vegas"),
        _kernel("tcp_lp", "TCP-LP (kernel)", module="lp"),
        _kernel("cdg", "CDG"),
        _kernel("nv", "NV"),
        _kernel("highspeed", "HighSpeed TCP"),
        _kernel("westwood", "Westwood+"),
        Control("imtcp", "imtcp", run_mode="measure", label="imtcp (measures, else Reno)"),
        Control("imtcp_bg", "imtcp_bg", run_mode="bg", label="imtcp background"),
        Control(
            "imtcp_run", "imtcp_bg", run_mode="bg", by_run=True,
            label="imtcp background, packets marked",
        ),
        *(
            Control(
                f"imtcp_from_{sender}", sender, run_mode="bg", receives=True,
                label=f"imtcp at the receiver, from {sender}",
            )
            for sender in ("cubic", "reno", "bbr")
        ),
        Control(
            "rledbat", "cubic", run_mode="ledbatpp", receives=True,
            label="LEDBAT++ at the receiver (RFC 9840), from cubic",
        ),
        Control("cubic_half", "cubic", share=0.5, label="CUBIC at half of the link"),
        Control(
            "imtcp_bg_g", "imtcp_bg", run_mode="bg", label="imtcp background, g = 0.7",
            params=("g=0.7",),
        ),
        Control("imtcp_fs", "imtcp_fs", run_mode="fs", label="imtcp full speed"),
        Control("imtcp_lp", "imtcp_lp", run_mode="lp", label="TCP-LP (imtcp)"),
        Control("imtcp_lpecn", "imtcp_lpecn", run_mode="lpecn", label="TCP-LP/ECN (imtcp)"),
        Control("imtcp_nice", "imtcp_nice", run_mode="nice", label="TCP Nice (imtcp)"),
        Control("imtcp_ledbat", "imtcp_ledbat", run_mode="ledbat", label="LEDBAT (imtcp)"),
        Control("imtcp_ledbatpp", "imtcp_ledbatpp", run_mode="ledbatpp", label="LEDBAT++ (imtcp)"),
        Control("paper", "imtcp_paper", run_mode="paper", label="ImTCP as printed"),
        Control("paper_bg", "imtcp_paperbg", run_mode="paper-bg", label="ImTCP-bg as printed"),
        Control(
            "paper_cap", "imtcp_papercap", run_mode="paper-cap",
            label="ImTCP's background mode as printed",
        ),
        Control(
            "paper_fs", "imtcp_paperfs", run_mode="paper-fs", label="ImTCP's full speed as printed"
        ),
        Control("paper_lp", "imtcp_paperlp", run_mode="paper-lp", label="TCP-LP as printed"),
        Control(
            "paper_nice", "imtcp_papernice", run_mode="paper-nice", label="TCP Nice as printed"
        ),
        Control("imtcp_nocc", "imtcp_nocc", run_mode="nocc", label="no congestion control (imtcp)"),
        PRIORITY,
        PRIORITY_BBR,
    )
}  # fmt: skip


def named(names: str | list[str]) -> list[Control]:
    """The controls in a comma-separated text or a list; raises ValueError for an unknown one."""
    parts = names.split(",") if isinstance(names, str) else names
    unknown = [name for name in parts if name not in CONTROLS]
    if unknown:
        known = ", ".join(CONTROLS)
        raise ValueError(f"unknown control {', '.join(unknown)} (known: {known})")
    return [CONTROLS[name] for name in parts]
