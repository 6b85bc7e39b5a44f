"""ProFTPD with mod_imtcp: real clients, a real advice service, and services that are none.

ss(8) shows the kernel's control while a transfer runs. Advice chooses `reno` here, and the kernel's
default otherwise, for each kernel has both.
"""

from __future__ import annotations

import contextlib
import ftplib
import functools
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from built import ADVICE

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "target" / "proftpd" / "mod_imtcp.so"
NEEDED = ["proftpd", "prxs", "ftpasswd", "lftp", "curl", "ncftpget", "openssl", "ss"]
MODULES = Path("/usr/lib/proftpd")
SYSCTL = Path("/proc/sys/net/ipv4")
DEFAULT = (SYSCTL / "tcp_congestion_control").read_text().strip()
CHOSEN = "reno"
USER, PASSWORD = "ann", "a-password"
MB = 1_000_000
PASSIVE_PORTS = 50
#: `big` takes four seconds.
SLOW = "TransferRate RETR 700"
BIG = 3 * MB
#: More than the kernel takes into its buffers at once.
LARGE = 24 * MB
AWAY = "http://127.0.0.1:1"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="ProFTPD changes its user, which needs root"),
    pytest.mark.skipif(CHOSEN == DEFAULT, reason=f"{CHOSEN} is this kernel's default already"),
]


def run(*command: object, **more: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, **more)  # type: ignore[call-overload]


def wait_until(what: str, holds: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


# --- a service that says what a test wants ---


def advice(mode: str = "bg", again_s: float = 600, **more: object) -> bytes:
    """An answer as of /v1/advice."""
    now = datetime.now(UTC)
    until = (now + timedelta(seconds=again_s)).isoformat().replace("+00:00", "Z")
    return json.dumps({
        "at": now.isoformat().replace("+00:00", "Z"), "verdict": "advice",
        "congestion_control": "on", "mode": mode, "buffer_bytes": None,
        "because": "the test says so", "next_advice_at": until, "valid_until": until, **more,
    }).encode()  # fmt: skip


Plain = bytes | tuple[int, bytes]
Answer = Plain | Callable[[dict[str, str]], Plain]


class Service:
    """Gives the answers in turn, the last one again and again; remembers who asked what."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                assert url.path == "/v1/advice", self.path
                outer.asked.append({k: v[0] for k, v in parse_qs(url.query).items()})
                answer = outer.answers[0] if len(outer.answers) == 1 else outer.answers.pop(0)
                if callable(answer):
                    answer = answer(outer.asked[-1])
                status, body = answer if isinstance(answer, tuple) else (200, answer)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def silent(self, _: dict[str, str]) -> bytes:
        """An answer that does not come."""
        self.over.wait(30)
        return b""

    def end(self) -> None:
        self.over.set()
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def service() -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def start(*answers: Answer) -> Service:
        started.append(Service(*answers))
        return started[-1]

    yield start
    for one in started:
        one.end()


# --- ProFTPD ---

BASE = """
ServerType standalone
ServerName imtcp-tests
Port {port}
DefaultAddress 127.0.0.1
UseIPv6 off
User nobody
Group nogroup
PassivePorts {passive} {passive_end}
PidFile {home}/pid
ScoreboardFile none
DelayEngine off
SystemLog {home}/system.log
TransferLog none
WtmpLog off
UseReverseDNS off
AuthOrder mod_auth_file.c mod_auth_unix.c
AuthUserFile {home}/passwd
RequireValidShell off
UseFtpUsers off
DefaultRoot ~
AllowOverride on
AllowRetrieveRestart on
TimeoutLinger 1
ModulePath {home}/modules
LoadModule mod_tls.c
LoadModule mod_ifsession.c
LoadModule mod_imtcp.c
ImtcpLog {home}/imtcp.log
"""
TLS = """
TLSEngine on
TLSRequired on
TLSRSACertificateFile {home}/tls.crt
TLSRSACertificateKeyFile {home}/tls.key
TLSOptions NoSessionReuseRequired
"""


@dataclass
class Ftp:
    """A server with one user, whose directory has files of noise."""

    home: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def passive(self) -> int:
        return 20_000 + self.port % 10_000

    @property
    def files(self) -> Path:
        return self.home / "files"

    def configure(self, directives: str) -> Path:
        ports = {"passive": self.passive, "passive_end": self.passive + PASSIVE_PORTS - 1}
        config = self.home / "proftpd.conf"
        text = (BASE + directives).format(home=self.home, port=self.port, **ports)
        config.write_text(text)
        return config

    def start(self, directives: str) -> Ftp:
        config = self.configure(directives)
        self.process = subprocess.Popen(
            ["proftpd", "-n", "-q", "-c", config], stderr=subprocess.DEVNULL
        )
        wait_until(f"ProFTPD listens: {self.said('system.log')}", self.listens)
        return self

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def said(self, name: str = "imtcp.log") -> str:
        log = self.home / name
        return log.read_text(errors="replace") if log.exists() else ""

    def client(self) -> ftplib.FTP:
        ftp = ftplib.FTP(timeout=20)
        ftp.connect("127.0.0.1", self.port)
        ftp.login(USER, PASSWORD)
        return ftp

    @contextlib.contextmanager
    def held(self) -> Iterator[socket.socket]:
        """A transfer of `large` whose client does not read."""
        client = self.client()
        client.voidcmd("TYPE I")
        with client.transfercmd("RETR large") as data:
            yield data
        client.close()

    def curl(self, path: str, *more: str) -> list[str]:
        url = f"ftp://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{path}"
        return ["curl", "-sS", "--ssl", "-k", "--max-time", "25", *more, url]

    def on_the_wire(self, client_port: int | None = None) -> list[str]:
        """The server's data connections as ss tells them: passive, or active to this port."""
        lines = run("ss", "-tinmHO", "state", "established").stdout.splitlines()
        found = []
        for line in lines:
            ends = re.findall(r"127\.0\.0\.1\]?:(\d+)", line)
            mine = len(ends) == 2 and (
                int(ends[1]) == client_port
                if client_port
                else self.passive <= int(ends[0]) < self.passive + PASSIVE_PORTS
            )
            found += [line] if mine else []
        return found

    def controls(self, client_port: int | None = None) -> list[str]:
        known = (SYSCTL / "tcp_available_congestion_control").read_text().split()
        lines = self.on_the_wire(client_port)
        return [word for line in lines for word in line.split() if word in known]

    def wait_for(self, control: str, seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while (now := self.controls()) != [control]:
            assert time.monotonic() < deadline, (control, now, self.said(), self.said("system.log"))
            time.sleep(0.02)

    def sessions(self) -> list[int]:
        assert self.process
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            for pid in self.sessions():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()


@functools.cache
def noise(bytes_: int) -> bytes:
    return os.urandom(bytes_)


@pytest.fixture(scope="session")
def module() -> Path:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} (scripts/packages-tests.txt)")
    built = run("make", "-s", "-C", ROOT / "proftpd")
    assert built.returncode == 0, built.stderr
    return MODULE


@pytest.fixture(scope="session")
def house(module: Path) -> Iterator[Path]:
    """All servers share this: files, modules, the user, a certificate."""
    # pytest's own directories are closed to the user that ProFTPD becomes.
    with tempfile.TemporaryDirectory(prefix="imtcp-ftp-") as scratch:
        house = Path(scratch)
        house.chmod(0o755)
        (house / "modules").mkdir()
        (house / "files").mkdir()
        for name in ["mod_tls.so", "mod_ifsession.so"]:
            (house / "modules" / name).symlink_to(MODULES / name)
        (house / "modules" / "mod_imtcp.so").symlink_to(module)
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", house / "tls.key", "-out",
            house / "tls.crt", check=True)  # fmt: skip
        (house / "tls.key").chmod(0o600)
        nobody = pwd.getpwnam("nobody")
        run("ftpasswd", "--passwd", "--stdin", "--name", USER, "--uid", nobody.pw_uid, "--gid",
            nobody.pw_gid, "--home", house / "files", "--shell", "/bin/false", "--file",
            house / "passwd", input=PASSWORD, check=True)  # fmt: skip
        yield house


@pytest.fixture
def ftp(house: Path) -> Iterator[Ftp]:
    server = Ftp(house)
    server.files.mkdir(exist_ok=True)
    for name, size in [("small", 100_000), ("big", BIG), ("large", LARGE)]:
        (server.files / name).write_bytes(noise(size))
    try:
        yield server
    finally:
        server.end()
        shutil.rmtree(server.files)
        for name in ["imtcp.log", "system.log", "out"]:
            (house / name).unlink(missing_ok=True)


#: Advice chooses these here, since imtcp's own controls may not be loaded.
NAMES = f"ImtcpControls off {CHOSEN} bg {CHOSEN} measure default"


#: A busy machine's service has time to answer; a test that is about the timeout has its own.
PATIENT = "ImtcpTimeout 5000"


def asks(url: str) -> str:
    return f"ImtcpEngine on\nImtcpAdviceURL {url}\n{PATIENT}\n"


def on(url: str, *more: str) -> str:
    return asks(url) + "\n".join([NAMES, *more]) + "\n"


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def fetched(ftp: Ftp, *command: object) -> bytes:
    done = run(*command)
    assert done.returncode == 0, (done.stderr, ftp.said(), ftp.said("system.log"))
    return (ftp.home / "out").read_bytes()


# --- files arrive ---


# ncftp speaks no TLS.
@pytest.mark.parametrize(
    "client, tls",
    [("lftp", False), ("lftp", True), ("curl", False), ("curl", True), ("ncftpget", False)],
)
def test_real_clients_get_their_files_whole(
    ftp: Ftp, service: Callable[..., Service], client: str, tls: bool
) -> None:
    told = service(advice())
    ftp.start(on(told.url) + (TLS if tls else ""))
    out = ftp.home / "out"
    lftp = f"set ftp:ssl-force {str(tls).lower()}; set ftp:ssl-allow {str(tls).lower()}; "
    lftp += "set ftp:ssl-protect-data true; set ssl:verify-certificate no; "
    lftp += f"open -u {USER},{PASSWORD} 127.0.0.1:{ftp.port}; get big -o {out}"
    command: list[object] = {
        "lftp": ["lftp", "-c", lftp],
        "curl": ftp.curl("big", "-o", str(out), *(["--ssl-reqd"] if tls else [])),
        "ncftpget": ["ncftpget", "-u", USER, "-p", PASSWORD, "-P", ftp.port, "-c", "127.0.0.1",
                     "/big"],
    }[client]  # fmt: skip
    if client == "ncftpget":
        with out.open("wb") as file:
            subprocess.run([str(word) for word in command], stdout=file, check=True, timeout=30)
    else:
        fetched(ftp, *command)
    assert out.read_bytes() == noise(BIG)
    assert told.asked == [{"dst": "127.0.0.1", "bytes": str(BIG)}]
    assert f"congestion control {CHOSEN}," in ftp.said()


# --- what the kernel has ---


@pytest.mark.parametrize(
    ("controls", "expected"),
    [(f"bg default unknown {CHOSEN}", CHOSEN), (f"bg {CHOSEN}", CHOSEN)],
    ids=["of its own", "as bg"],
)
def test_where_the_path_is_not_known_the_control_of_unknown_is_taken(
    ftp: Ftp, service: Callable[..., Service], controls: str, expected: str
) -> None:
    told = service(advice("bg", 600, verdict="unknown"))
    ftp.start(asks(told.url) + f"ImtcpControls {controls}\n")
    with ftp.held():
        ftp.wait_for(expected)
    assert "path unknown, for the test says so" in ftp.said()


def test_advice_switches_a_connection_in_mid_transfer(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    """Also one whose client reads nothing: ProFTPD is in sendfile(2) all the time."""
    told = service(advice("bg", 2), advice("measure", 600))
    ftp.start(on(told.url))
    with ftp.held() as data:
        ftp.wait_for(CHOSEN)
        ftp.wait_for(DEFAULT)
        got = b"".join(iter(lambda: data.recv(1 << 16), b""))
    assert got == noise(LARGE)
    first, second = (int(asked["bytes"]) for asked in told.asked)
    assert first == LARGE
    assert 0 < second < first


def test_an_answer_that_ends_before_the_next_is_due_is_asked_for_again_then(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    told = service(advice("bg", 600, verdict="unknown", valid_until=soon), advice("measure", 600))
    ftp.start(on(told.url))
    with ftp.held() as data:
        ftp.wait_for(DEFAULT)
        wait_until("it asked again", lambda: len(told.asked) == 2)
        while data.recv(1 << 16):
            pass


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_it_switches_below_a_rate_of_the_servers_and_below_tls(
    ftp: Ftp, service: Callable[..., Service], tls: bool
) -> None:
    told = service(advice("bg", 2), advice("measure", 600))
    ftp.start(on(told.url, SLOW) + (TLS if tls else ""))
    with running(ftp.curl("big", "-o", str(ftp.home / "out"))) as client:
        ftp.wait_for(CHOSEN)
        ftp.wait_for(DEFAULT)
        assert client.wait(20) == 0
    assert (ftp.home / "out").read_bytes() == noise(BIG)
    first, second = (int(asked["bytes"]) for asked in told.asked)
    assert 0 < second < first == BIG


def test_an_active_connection_has_it_too(ftp: Ftp, service: Callable[..., Service]) -> None:
    told = service(advice())
    ftp.start(on(told.url))
    client = ftp.client()
    client.set_pasv(False)
    client.voidcmd("TYPE I")
    data = client.transfercmd("RETR large")
    assert ftp.controls(data.getsockname()[1]) == [CHOSEN]
    got = b"".join(iter(lambda: data.recv(1 << 16), b""))
    data.close()
    client.voidresp()
    assert got == noise(LARGE)
    assert told.asked[0]["dst"] == "127.0.0.1"


def test_each_transfer_has_its_own_advice(ftp: Ftp, service: Callable[..., Service]) -> None:
    told = service(advice("bg"), advice("measure"), advice("bg"))
    ftp.start(on(told.url))
    client = ftp.client()
    client.voidcmd("TYPE I")
    for name, control in [("large", CHOSEN), ("small", DEFAULT), ("large", CHOSEN)]:
        data = client.transfercmd(f"RETR {name}")
        assert f"congestion control {control}," in ftp.said().splitlines()[-1]
        if name == "large":
            ftp.wait_for(control)
        while data.recv(1 << 16):
            pass
        data.close()
        client.voidresp()
    assert [asked["bytes"] for asked in told.asked] == [str(LARGE), "100000", str(LARGE)]


def test_the_rest_of_a_file_is_asked_for_by_its_length(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    told = service(advice())
    ftp.start(on(told.url))
    out = ftp.home / "out"
    out.write_bytes(noise(BIG)[:MB])
    fetched(ftp, *ftp.curl("big", "-C", "-", "-o", str(out)))
    assert out.read_bytes() == noise(BIG)
    assert [asked["bytes"] for asked in told.asked] == [str(BIG - MB)]


def sndbuf(ftp: Ftp) -> int:
    lines = ftp.on_the_wire()
    return int(re.search(r"\btb(\d+)", lines[0])[1]) if lines else 0


def test_the_send_buffer_is_as_advised_and_later_the_kernels_again(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    told = service(advice("bg", 2, buffer_bytes=50_000), advice("bg", 600))
    ftp.start(on(told.url))
    with ftp.held():
        ftp.wait_for(CHOSEN)
        # The kernel doubles it, for its own.
        assert sndbuf(ftp) == 100_000
        wait_until("the kernel lets it grow", lambda: sndbuf(ftp) > 100_000)


def test_a_send_buffer_beyond_what_the_kernel_allows_is_left_to_it(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    ftp.start(on(service(advice(buffer_bytes=2_000_000_000)).url))
    with ftp.held():
        ftp.wait_for(CHOSEN)
        wait_until("it says so", lambda: "net.core.wmem_max" in ftp.said())
    with ftp.held():
        wait_until("the kernel chooses", lambda: sndbuf(ftp) not in (0, 4_000_000_000))


# --- a real service ---


def history(path: Path, available_bps: int) -> None:
    """Days on which an hour around now was measured, and a measurement of now."""
    now = datetime.now(UTC)
    minutes = [now - timedelta(days=day) + timedelta(minutes=m) for day in range(1, 5)
               for m in range(60)]  # fmt: skip
    rows = [f"{at.isoformat()},{available_bps},100000000,20000" for at in [*minutes, now]]
    path.write_text("\n".join(["time,available_bps,capacity_bps,rtt_us", *rows]))


@pytest.fixture
def real_service(tmp_path: Path) -> Iterator[Callable[..., str]]:
    started: list[subprocess.Popen[str]] = []

    def start(available_bps: int, *more: object) -> str:
        trace, db = tmp_path / "trace.csv", tmp_path / "history.db"
        history(trace, available_bps)
        done = run(ADVICE, "import", "--db", db, "--path", "127.0.0.1", trace)
        assert done.returncode == 0, done.stderr
        serve = [ADVICE, "serve", "--db", db, "--listen", "127.0.0.1:0", "--no-ping"]
        command = [str(word) for word in [*serve, *more]]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        line = started[-1].stdout.readline()
        return re.search(r"https?://\S+/", line)[0]

    yield start
    for one in started:
        one.terminate()
        one.wait()


def test_the_real_services_history_decides(ftp: Ftp, real_service: Callable[..., str]) -> None:
    url = real_service(10_000_000)
    ftp.start(on(url))
    with ftp.held():
        ftp.wait_for(CHOSEN)
        assert sndbuf(ftp) == 2 * 250_000
    assert "127.0.0.1: bg, for the path has less available bandwidth than the threshold" in (
        ftp.said()
    )


def test_on_a_free_path_no_congestion_control_is_left_to_the_kernels_permission(
    ftp: Ftp, real_service: Callable[..., str]
) -> None:
    url = real_service(80_000_000)
    ftp.start(asks(url))
    with ftp.held():
        ftp.wait_for(DEFAULT)
        wait_until("the log has it", lambda: f"congestion control {DEFAULT}," in ftp.said())
    assert "congestion control off, for every newest measurement is fresh" in ftp.said()
    assert "imtcp_nocc" in ftp.said()


@pytest.mark.parametrize("mode, name", [("bg", "imtcp_bg"), ("measure", "imtcp")])
def test_without_names_of_ones_own_they_are_imtcps(
    ftp: Ftp, service: Callable[..., Service], mode: str, name: str
) -> None:
    """Others load and unload them here meanwhile: the log and the kernel have to agree."""
    ftp.start(asks(service(advice(mode)).url))
    with ftp.held():
        wait_until("it is set", lambda: "send buffer" in ftp.said())
        lacks = f"this kernel has no congestion control {name}" in ftp.said()
        ftp.wait_for(DEFAULT if lacks else name)


def test_a_control_that_the_kernel_lacks_leaves_the_default_and_a_line_in_the_log(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    url = service(advice()).url
    ftp.start(asks(url) + "ImtcpControls bg nobody_has_it")
    with ftp.held():
        ftp.wait_for(DEFAULT)
    assert "this kernel has no congestion control nobody_has_it" in ftp.said()


def test_a_control_that_the_kernel_restricts_leaves_the_default(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    available = set((SYSCTL / "tcp_available_congestion_control").read_text().split())
    allowed = set((SYSCTL / "tcp_allowed_congestion_control").read_text().split())
    if not available - allowed:
        pytest.skip("this kernel restricts none of its congestion controls")
    restricted = min(available - allowed)
    url = service(advice()).url
    ftp.start(asks(url) + f"ImtcpControls bg {restricted}")
    with ftp.held():
        ftp.wait_for(DEFAULT)
    assert f"does not let this session choose congestion control {restricted}" in ftp.said()


def test_over_https_the_services_certificate_counts(
    ftp: Ftp, real_service: Callable[..., str]
) -> None:
    certificate = ["--tls-cert", ftp.home / "tls.crt", "--tls-key", ftp.home / "tls.key"]
    url = real_service(10_000_000, *certificate).replace("127.0.0.1", "localhost")
    assert url.startswith("https://")
    for ca, said in [(f" {ftp.home}/tls.crt", f"congestion control {CHOSEN},"),
                     ("", f"congestion control {DEFAULT},")]:  # fmt: skip
        ftp.start(on(url + ca))
        assert fetched(ftp, *ftp.curl("small", "-o", str(ftp.home / "out"))) == noise(100_000)
        assert said in ftp.said().splitlines()[-1], ftp.said()
        ftp.end()


# --- a service that is none ---

DEEP = b"[" * 500_000
WRONG = {
    "not JSON": (b"<html>hello</html>", "the answer is no JSON;"),
    "cut short": (advice()[:-20], "the answer is empty, or no whole JSON"),
    "nothing": (b"", "the answer is empty, or no whole JSON"),
    "a list": (b"[1, 2]", "the answer is no JSON object"),
    "deep": (DEEP, "the answer is no JSON;"),
    "huge": (b'{"because": "' + b"x" * (20 * MB) + b'"}', "the answer is larger than 1 MiB"),
    "another mode": (advice("turbo"), "the answer has no congestion_control and mode"),
    "no switch": (advice(congestion_control=1), "the answer has no congestion_control and mode"),
    "no times": (advice(valid_until="soon"), "the answer has no times"),
    "a wrong buffer": (advice(buffer_bytes="much"), "the answer has no buffer_bytes"),
    "404": ((404, b"not here"), "HTTP status 404"),
    "500": ((500, b'{"detail": "the disk is full"}'), "HTTP status 500: the disk is full"),
    "a redirect": ((302, b""), "HTTP status 302"),
}


def test_nonsense_leaves_the_default_and_the_file_whole(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    cases = list(WRONG.values())
    # Known by their lengths, and all at once: a session is slow to come with ProFTPD.
    told = service(lambda asked: cases[int(asked["bytes"]) - 1][0])
    ftp.start(on(told.url))
    clients = []
    for length in range(1, len(cases) + 1):
        (ftp.files / str(length)).write_bytes(noise(BIG)[:length])
        out = str(ftp.files / f"{length}.out")
        clients.append(subprocess.Popen(ftp.curl(str(length), "-o", out)))
    assert [client.wait(30) for client in clients] == [0] * len(cases)
    for length in range(1, len(cases) + 1):
        assert (ftp.files / f"{length}.out").read_bytes() == noise(BIG)[:length]
    said = ftp.said()
    for what, (_, why) in WRONG.items():
        assert f"no advice: {why}" in said, (what, said)
    assert said.count(f"congestion control {DEFAULT}, send buffer 0") == len(cases)


def test_a_service_that_is_away_or_silent_delays_no_longer_than_the_timeout(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    told = service(b"")
    told.answers[:] = [told.silent]
    for url, least_s in [(AWAY, 0), (told.url, 1)]:
        ftp.start(on(url).replace(PATIENT, "ImtcpTimeout 1000"))
        client, got, took_s = ftp.client(), [], []
        for _ in range(5):
            began = time.monotonic()
            client.retrbinary("RETR small", got.append)
            took_s.append(time.monotonic() - began)
        client.quit()
        assert b"".join(got) == noise(100_000) * 5
        assert least_s <= took_s[0] < least_s + 0.9
        # Whoever did not answer just now is not waited for again by the next small file.
        assert max(took_s[1:]) < 0.9, took_s
        assert f"congestion control {DEFAULT}," in ftp.said()
        ftp.end()
    assert len(told.asked) == 1


def test_a_silent_service_in_mid_transfer_does_not_stall_the_data(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    told = service(advice("bg", 1))
    told.answers.append(told.silent)
    ftp.start(on(told.url))
    client = ftp.client()
    client.voidcmd("TYPE I")
    data = client.transfercmd("RETR big")
    data.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    got, waits_s = 0, []
    while True:
        began = time.monotonic()
        chunk = data.recv(20_000)
        waits_s.append(time.monotonic() - began)
        got += len(chunk)
        if not chunk:
            break
        time.sleep(0.018)
    data.close()
    client.voidresp()
    assert got == BIG
    assert len(told.asked) == 2
    assert max(waits_s) < 1


def test_when_the_service_falls_silent_the_default_comes_back(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    told = service(advice("bg", 1), (503, b""))
    ftp.start(on(told.url))
    with ftp.held():
        ftp.wait_for(CHOSEN)
        ftp.wait_for(DEFAULT)
    assert "no advice: HTTP status 503" in ftp.said()


def test_what_a_service_writes_cannot_forge_a_line_of_the_log(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    ftp.start(on(service(advice(because="one\ntwo\x1b[2J")).url))
    fetched(ftp, *ftp.curl("small", "-o", str(ftp.home / "out")))
    assert "for one?two?[2J;" in ftp.said()


# --- the end of a transfer ---


def test_after_an_abort_nothing_of_it_is_left(ftp: Ftp, service: Callable[..., Service]) -> None:
    told = service(advice("bg", 1), advice("bg", 1), advice("measure", 600))
    ftp.start(on(told.url))
    client = ftp.client()
    client.voidcmd("TYPE I")
    data = client.transfercmd("RETR large")
    ftp.wait_for(CHOSEN)
    client.putcmd("ABOR")
    data.close()
    replies = [client.getmultiline()]
    if not replies[0].startswith("226"):
        replies.append(client.getmultiline())
    assert replies[-1].startswith("226")
    asked = len(told.asked)
    time.sleep(2.2)
    assert len(told.asked) == asked
    assert not ftp.on_the_wire()
    told.answers[:] = [advice("measure", 600)]
    got: list[bytes] = []
    client.retrbinary("RETR small", got.append)
    assert b"".join(got) == noise(100_000)
    assert told.asked[-1]["bytes"] == "100000"
    assert f"congestion control {DEFAULT}," in ftp.said().splitlines()[-1]


def test_a_client_that_is_killed_leaves_nothing(ftp: Ftp, service: Callable[..., Service]) -> None:
    told = service(advice("bg", 1))
    ftp.start(on(told.url, SLOW))
    with running(ftp.curl("big", "-o", "/dev/null")):
        ftp.wait_for(CHOSEN)
    wait_until("the session is gone", lambda: not ftp.sessions())
    asked = len(told.asked)
    time.sleep(1.5)
    assert len(told.asked) == asked
    assert not ftp.on_the_wire()


# --- where it holds ---


def test_directories_users_and_ftpaccess_switch_it(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    told = service(advice())
    for name in ["off", "on", "own", "names"]:
        (ftp.files / name).mkdir()
        (ftp.files / name / "file").write_bytes(name.encode())
    (ftp.files / "own" / ".ftpaccess").write_text("ImtcpEngine off\n")
    ftp.start(
        on(told.url)
        + """
<Directory {home}/files/off>
  ImtcpEngine off
</Directory>
<Directory {home}/files/names>
  ImtcpControls bg default
</Directory>
"""
    )
    client = ftp.client()
    for name, asked in [("on", 1), ("off", 1), ("own", 1), ("names", 2), ("on", 3)]:
        got: list[bytes] = []
        client.retrbinary(f"RETR {name}/file", got.append)
        assert (b"".join(got), len(told.asked)) == (name.encode(), asked), name
        if name == "names":
            assert f"congestion control {DEFAULT}," in ftp.said().splitlines()[-1]
    ftp.end()

    for server, who, user, asked in [("off", "bob", "on", 3), ("off", USER, "on", 4),
                                     ("on", USER, "off", 4), ("on", "bob", "off", 5)]:  # fmt: skip
        of_user = f"<IfUser {who}>\nImtcpEngine {user}\n</IfUser>"
        ftp.start(f"ImtcpAdviceURL {told.url}\nImtcpEngine {server}\n{PATIENT}\n{of_user}")
        fetched(ftp, *ftp.curl("small", "-o", str(ftp.home / "out")))
        assert len(told.asked) == asked, (server, who, user, ftp.said())
        ftp.end()


def test_anonymous_users_and_virtual_hosts_have_their_own(
    ftp: Ftp, service: Callable[..., Service]
) -> None:
    told, port = service(advice()), free_port()
    ftp.start(f"""
<Global>
  ImtcpAdviceURL {told.url}
  {PATIENT}
</Global>
<Anonymous {{home}}/files>
  User nobody
  Group nogroup
  UserAlias anonymous nobody
  RequireValidShell off
  UseFtpUsers off
  ImtcpEngine on
</Anonymous>
<VirtualHost 127.0.0.1>
  Port {port}
  DefaultRoot ~
  AuthUserFile {{home}}/passwd
  RequireValidShell off
  UseFtpUsers off
  ImtcpEngine on
</VirtualHost>
""")
    logins = [(USER, PASSWORD, ftp.port, 0), ("anonymous", "x@y", ftp.port, 1),
              (USER, PASSWORD, port, 2)]  # fmt: skip
    for user, password, at, asked in logins:
        url = f"ftp://127.0.0.1:{at}/small"
        out = ["-o", ftp.home / "out"]
        fetched(ftp, "curl", "-sS", "--user", f"{user}:{password}", url, *out)
        assert len(told.asked) == asked, user


@pytest.mark.parametrize("address", ["::1", "127.0.0.1"])
def test_each_family_of_addresses_asks_by_its_own(
    ftp: Ftp, service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """To a server with one socket for both, IPv4 comes as a part of IPv6."""
    both = BASE.replace("UseIPv6 off", "UseIPv6 on").replace("DefaultAddress 127.0.0.1\n", "")
    monkeypatch.setattr(sys.modules[__name__], "BASE", both)
    told = service(advice())
    ftp.start("DefaultAddress localhost\n" + on(told.url))
    host = f"[{address}]" if ":" in address else address
    url = f"ftp://{USER}:{PASSWORD}@{host}:{ftp.port}/small"
    fetched(ftp, "curl", "-sS", "-o", ftp.home / "out", url)
    assert [asked["dst"] for asked in told.asked] == [address]
    assert f"congestion control {CHOSEN}," in ftp.said()


def test_it_survives_a_reload(ftp: Ftp, service: Callable[..., Service]) -> None:
    told = service(advice())
    ftp.start(on(told.url) + TLS)
    assert ftp.process
    for _ in range(2):
        restarts = ftp.said("system.log").count("received SIGHUP")
        ftp.process.send_signal(signal.SIGHUP)
        wait_until(
            "it has read its configuration again",
            lambda: ftp.said("system.log").count("received SIGHUP") > restarts,  # noqa: B023
        )
        wait_until("it listens", ftp.listens)
    asked = len(told.asked)
    fetched(ftp, *ftp.curl("small", "--ssl-reqd", "-o", str(ftp.home / "out")))
    assert len(told.asked) == asked + 1
    assert f"congestion control {CHOSEN}," in ftp.said()


def test_uploads_and_listings_are_left_alone(ftp: Ftp, service: Callable[..., Service]) -> None:
    told = service(advice())
    ftp.start(on(told.url))
    ftp.files.chmod(0o777)
    client = ftp.client()
    assert "big" in client.nlst()
    with (ftp.files / "small").open("rb") as file:
        client.storbinary("STOR copy", file)
    assert not told.asked
    with pytest.raises(ftplib.error_perm):
        client.retrbinary("RETR nothing", print)
    assert not told.asked


# --- directives ---

BAD = {
    "ImtcpEngine perhaps": "write on or off",
    "ImtcpEngine": "missing parameters",
    "ImtcpAdviceURL": "write a URL",
    "ImtcpAdviceURL 127.0.0.1:8750": "write http://127.0.0.1:8750",
    "ImtcpAdviceURL ftp://127.0.0.1/": "write http://127.0.0.1:8750",
    "ImtcpAdviceURL http://192.0.2.7:8750": "write https://",
    "ImtcpAdviceURL http://u:p@localhost:8750": "not supported",
    "ImtcpAdviceURL http://localhost:8750/?a=b": "not supported",
    "ImtcpAdviceURL https://192.0.2.7 /nowhere.pem": "/nowhere.pem cannot be read",
    "ImtcpAdviceURL https://192.0.2.7 {home}/passwd": "has no certificate",
    "ImtcpAdviceURL http://localhost {home}/tls.crt": "goes with https://",
    "ImtcpTimeout soon": "milliseconds, 1 to 10000",
    "ImtcpTimeout 0": "milliseconds, 1 to 10000",
    "ImtcpTimeout 1s": "milliseconds, 1 to 10000",
    "ImtcpTimeout 10001": "milliseconds, 1 to 10000",
    "ImtcpControls bg": "write pairs",
    "ImtcpControls fast reno": "write off, bg, measure or unknown",
    "ImtcpControls bg a-name-of-more-than-15": "cannot be a congestion control's name",
    "ImtcpControls off reno off cubic": "'off' is there twice: write each case once",
    "ImtcpControls bg reno measure cubic BG default": "'bg' is there twice",
    "ImtcpLog imtcp.log": "absolute path, or none",
    "ImtcpLog syslog:info": "absolute path, or none",
    "ImtcpLog /nonexist/dir/log": "there is no directory /nonexist/dir: make it",
    "ImtcpLog /nonexist/": "there is no directory /nonexist: make it",
    "ImtcpLog {home}/passwd/log": "there is no directory",
    "ImtcpLog /tmp": "this is a directory: write the path of a file",
    "ImtcpLog /": "this is a directory",
    "<Directory /x>\nImtcpLog none\n</Directory>": "not allowed in <Directory>",
    "<Limit RETR>\nImtcpEngine on\n</Limit>": "not allowed in <Limit>",
}


def test_a_bad_directive_is_refused_in_words(ftp: Ftp) -> None:
    def check(directives: str) -> subprocess.CompletedProcess[str]:
        return run("proftpd", "-t", "-c", ftp.configure(directives))

    for directive, why in BAD.items():
        checked = check(directive + "\n")
        assert checked.returncode != 0, directive
        assert why in checked.stderr, (directive, checked.stderr)
    logs = [f"ImtcpLog {path}" for path in ["none", "{home}/new.log", "{home}/passwd", "/new.log"]]
    for right in [*logs, "ImtcpControls off reno bg cubic measure reno unknown default"]:
        checked = check(on("http://[::1]:8750/", right))
        assert checked.returncode == 0, (right, checked.stderr)
