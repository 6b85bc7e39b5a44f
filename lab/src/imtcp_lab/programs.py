"""Real programs that transfer data across the bottleneck, each with a control: do they work?

Every program uploads the same generated data, and the job compares the receiver's copy.  The job
leaves ``verdict.json`` {program, identical, seconds, code} and, with imtcp, ``watch.jsonl``.
"""

from __future__ import annotations

from dataclasses import dataclass

from imtcp_lab import scenario
from imtcp_lab.controls import Control
from imtcp_lab.job import Job
from imtcp_lab.topology import BACKGROUND_RECEIVER, Dumbbell
from imtcp_lab.traffic import program_prefix, select_control

#: Small enough for a test, large enough for dozens of round trips.
DATA_BYTES = 3_000_000
PATH = Dumbbell(capacity_bps=20e6, buffer_pkts=200, foreground_rtts_ms=(30.0,))


@dataclass(frozen=True)
class Program:
    """The commands that serve, run and check one program."""

    name: str
    #: Programs that the machine must have.
    needs: tuple[str, ...]
    #: Starts the server in the receiver's namespace.
    server: str
    #: The upload; the control's prefix goes in front.
    client: str
    #: Succeeds if the receiver has the same data.
    check: str


_TREE_CHECK = "diff -r tree inbox"

_SSH_SERVER = """\
ssh-keygen -q -t ed25519 -N '' -f host_key
ssh-keygen -q -t ed25519 -N '' -f user_key
cp user_key.pub authorized_keys
cat >sshd.conf <<EOF
Port 2222
HostKey $PWD/host_key
AuthorizedKeysFile $PWD/authorized_keys
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
EOF
ns rx "$(command -v sshd)" -D -e -f "$PWD/sshd.conf" & STOP="$STOP $!"
"""

_NGINX_SERVER = f"""\
cat >nginx.conf <<EOF
daemon off;
user root;
pid $PWD/nginx.pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path $PWD/body;
  server {{
    listen {BACKGROUND_RECEIVER}:8081;
    root $PWD/inbox;
    client_max_body_size 0;
    dav_methods PUT;
    create_full_put_path on;
  }}
}}
EOF
ns rx nginx -e stderr -c "$PWD/nginx.conf" & STOP="$STOP $!"
"""

PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program(
            "rsync-ssh",
            ("rsync", "ssh", "sshd", "ssh-keygen"),
            _SSH_SERVER,
            "rsync -a -e 'ssh -p 2222 -i user_key -o BatchMode=yes"
            " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null'"
            f' tree/ "{BACKGROUND_RECEIVER}:$PWD/inbox/"',
            _TREE_CHECK,
        ),
        Program(
            "rsync-daemon",
            ("rsync",),
            "cat >rsyncd.conf <<EOF\n"
            "use chroot = no\nuid = root\ngid = root\n"
            "[inbox]\npath = $PWD/inbox\nread only = no\nEOF\n"
            'ns rx rsync --daemon --no-detach --config="$PWD/rsyncd.conf"'
            f" --address {BACKGROUND_RECEIVER}"
            ' & STOP="$STOP $!"\n',
            f"rsync -a tree/ rsync://{BACKGROUND_RECEIVER}/inbox/",
            _TREE_CHECK,
        ),
        Program(
            "curl-put",
            ("curl", "nginx"),
            _NGINX_SERVER,
            f"curl -sSf -T data http://{BACKGROUND_RECEIVER}:8081/data",
            "cmp data inbox/data",
        ),
        Program(
            "iperf3",
            ("iperf3",),
            f'ns rx iperf3 -s -1 -B {BACKGROUND_RECEIVER} >/dev/null & STOP="$STOP $!"\n',
            f"iperf3 -c {BACKGROUND_RECEIVER} -n {DATA_BYTES} -J --logfile iperf.json",
            "grep -q sum_received iperf.json && ! grep -q '\"error\"' iperf.json",
        ),
    )
}


def job(program: Program, control: Control, seed: int = 1) -> Job:
    """One upload with one control."""
    loaded = control.needs_imtcp
    watch = (
        'imtcp watch --json --interval 0.1 >"$OUT/watch.jsonl" & STOP="$STOP $!"\n'
        if loaded
        else ""
    )
    script = f"""\
{PATH.script()}
cat /proc/sys/net/ipv4/tcp_available_congestion_control \\
  >/proc/sys/net/ipv4/tcp_allowed_congestion_control
STOP=""
imtcp-load tree --out tree --bytes {DATA_BYTES} --mean-size 100KB --seed {seed}
find tree -type f | sort | xargs cat >data
mkdir inbox
{program.server}
{watch}{select_control(control)}
sleep 0.5
start=$(imtcp-load now)
code=0
{program_prefix(control)}{program.client} || code=$?
end=$(imtcp-load now)
identical=true
{{ {program.check}; }} >&2 || identical=false
printf '{{"program": "{program.name}", "code": %d, "identical": %s, "seconds": %d.%06d}}\\n' \\
  $code $identical $(((end - start) / 1000000)) $(((end - start) % 1000000)) >"$OUT/verdict.json"
for pid in $STOP; do kill "$pid" 2>/dev/null || true; done
"""
    return Job(script=script, seed=seed, warmup=scenario.loading(control), limit_virtual_s=120)
