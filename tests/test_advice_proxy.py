"""How imtcp's commands reach an advice service when the environment names a proxy."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from built import ADVICE, AGENT

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "a-token-for-the-tests"
#: A name that no name service knows (RFC 6761): only a proxy leads there.
HOST = "advice.invalid"
VARIABLES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


class Proxy:
    """Speaks HTTP's CONNECT and SOCKS 5, and leads every name to one service."""

    def __init__(self, service_port: int) -> None:
        self.service_port = service_port
        self.asked_for: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.lead, args=(client,), daemon=True).start()

    def lead(self, client: socket.socket) -> None:
        stream = client.makefile("rb", buffering=0)
        if (first := stream.read(1)) == b"\x05":
            stream.read(stream.read(1)[0])  # the ways to sign in that it offers
            client.sendall(b"\x05\x00")
            stream.read(4)  # CONNECT to a name
            name = stream.read(stream.read(1)[0])
            stream.read(2)  # its port
            self.asked_for.append(f"socks {name.decode()}")
            client.sendall(b"\x05\x00\x00\x01" + bytes(6))
        else:
            head = first
            while not head.endswith(b"\r\n\r\n"):
                head += stream.read(1)
            self.asked_for.append(head.split(b"\r\n")[0].decode())
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with socket.create_connection(("127.0.0.1", self.service_port)) as service:
            back = threading.Thread(target=carry, args=(service, client), daemon=True)
            back.start()
            carry(client, service)
            back.join()
        client.close()


def carry(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    tokens.chmod(0o600)
    return tokens


@pytest.fixture
def proxy(tmp_path: Path, token_file: Path) -> Iterator[Proxy]:
    serve = [ADVICE, "serve", "--db", tmp_path / "history.db", "--listen", "127.0.0.1:0"]
    more = ["--token-file", token_file, "--host", HOST]
    with subprocess.Popen([*serve, *more], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout
        proxy = Proxy(int(re.search(r":(\d+)/", service.stdout.readline())[1]))
        yield proxy
        proxy.listener.close()
        service.terminate()


def advise(url: str, *more: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return subprocess.run(
        [ADVICE, "ask", "192.0.2.7", "--url", url, *more],
        env={**clean, **variables}, capture_output=True, text=True, timeout=30,
    )  # fmt: skip


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_service_on_loopback_is_asked_directly(proxy: Proxy, variable: str) -> None:
    # The proxy of the environment leads nowhere.
    for host in ("127.0.0.1", "localhost"):
        url = f"http://{host}:{proxy.service_port}"
        done = advise(url, **{variable: f"http://127.0.0.1:{proxy.port}"})
        assert "no history" in done.stdout, done.stderr
    assert proxy.asked_for == []


def test_another_host_is_asked_through_the_proxy(proxy: Proxy) -> None:
    url = f"http://{HOST}:8750"
    done = advise(url, HTTP_PROXY=f"http://127.0.0.1:{proxy.port}")
    assert "no history" in done.stdout, done.stderr
    assert proxy.asked_for == [f"CONNECT {HOST}:8750 HTTP/1.1"]
    done = advise(url, ALL_PROXY=f"socks5h://127.0.0.1:{proxy.port}")
    assert "no history" in done.stdout, done.stderr
    assert proxy.asked_for[1:] == [f"socks {HOST}"]


@pytest.mark.parametrize(
    "listed", [HOST, "invalid", ".invalid", "*.invalid", "a.test, " + HOST, "*"]
)
def test_a_host_in_no_proxy_is_asked_directly(proxy: Proxy, listed: str) -> None:
    way = {"HTTP_PROXY": f"http://127.0.0.1:{proxy.port}", "NO_PROXY": listed}
    done = advise(f"http://{HOST}:8750", **way)
    assert done.returncode == 1
    assert "does not answer" in done.stderr
    assert proxy.asked_for == []


def test_the_proxy_of_https_is_not_the_one_of_http(proxy: Proxy) -> None:
    done = advise(f"http://{HOST}:8750", HTTPS_PROXY=f"http://127.0.0.1:{proxy.port}")
    assert done.returncode == 1
    assert proxy.asked_for == []


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001"])
def test_a_short_form_of_an_address_is_wrong_usage(host: str) -> None:
    # The system takes it for loopback: it would go to the proxy as another host's name.
    done = advise(f"http://{host}:8750", HTTP_PROXY="http://127.0.0.1:1")
    assert done.returncode == 2
    assert f"'{host}' is no address: write all four numbers, as 127.0.0.1" in done.stderr


def test_a_variable_that_names_no_proxy_is_wrong_usage() -> None:
    done = advise(f"http://{HOST}:8750", HTTP_PROXY="ftp://me:secret@127.0.0.1")
    assert done.returncode == 2
    assert "HTTP_PROXY" in done.stderr
    assert "secret" not in done.stderr


def test_a_token_that_crosses_the_network_in_the_clear_is_warned_about_once(
    proxy: Proxy, token_file: Path, tmp_path: Path
) -> None:
    way = {"http_proxy": f"http://127.0.0.1:{proxy.port}"}
    done = advise(f"http://{HOST}:8750", "--token-file", token_file, **way)
    assert "no history" in done.stdout, done.stderr
    warnings = [line for line in done.stderr.splitlines() if "warning" in line]
    assert len(warnings) == 1, done.stderr
    assert all(part in warnings[0] for part in (str(token_file), HOST, "https://"))
    # On loopback nobody sees it, and over TLS nobody reads it.
    quiet = advise(f"http://127.0.0.1:{proxy.service_port}", "--token-file", token_file)
    assert "warning" not in quiet.stderr
    quiet = advise(f"https://{HOST}:8750", "--token-file", token_file)
    assert "warning" not in quiet.stderr
    # Without a token there is nothing to see.
    assert "warning" not in advise(f"http://{HOST}:8750", **way).stderr
    # The agent makes two clients of one service.
    agent = [AGENT, "feed", "--no-connections", "--peers-from-service", "--ping", "60"]
    agent += ["--spool", tmp_path / "spool", "--url", f"http://{HOST}:8750"]
    with subprocess.Popen(
        [*agent, "--token-file", token_file], env={**os.environ, **way},
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    ) as running:  # fmt: skip
        time.sleep(1)
        running.terminate()
        assert running.communicate(timeout=20)[1].count("unencrypted") == 1
