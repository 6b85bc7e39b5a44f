"""The page and the command behind each reverse proxy of docs/how-to/advice-reverse-proxy.md."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from browsers import Open, keep_picture
from histories import DST, ROOT
from playwright.sync_api import expect

from built import ADVICE

NAME = "advice.example.org"
DOC = ROOT / "docs" / "how-to" / "advice-reverse-proxy.md"

NGINX = """
daemon off;
pid {dir}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};
    uwsgi_temp_path {dir}; scgi_temp_path {dir};
    {snippet}
}}
"""
APACHE = """
ServerName advice.example.org
Listen 127.0.0.1:{port}
PidFile {dir}/apache.pid
ErrorLog /dev/stderr
{modules}
User www-data
Group www-data
<VirtualHost 127.0.0.1:{port}>
    SSLEngine on
    SSLCertificateFile {dir}/cert.pem
    SSLCertificateKeyFile {dir}/key.pem
    {snippet}
</VirtualHost>
"""
CADDY = """
{{
    admin off
    auto_https off
}}
https://advice.example.org:{port} {{
    bind 127.0.0.1
    tls {dir}/cert.pem {dir}/key.pem
    {snippet}
}}
"""


def snippet(language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", DOC.read_text(), re.DOTALL)[1]


def installed(program: str, package: str) -> str:
    path = shutil.which(program, path="/usr/sbin:/usr/bin")
    if path is None:
        pytest.skip(f"needs {program} (Debian: {package})")
    return path


def make_certificate(directory: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", directory / "key.pem", "-out", directory / "cert.pem", "-days", "1",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},IP:127.0.0.1",
         "-addext", "basicConstraints=critical,CA:FALSE"],
        check=True, capture_output=True,
    )  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@contextmanager
def proxy(kind: str, service_url: str, directory: Path) -> Iterator[str]:
    """A proxy on a free port, with what the page of the documentation says about it."""
    make_certificate(directory)
    port = free_port()
    text = snippet(kind).replace("127.0.0.1:8750", re.search(r"//([^/]+)/", service_url)[1])
    config = directory / "config"
    if kind == "nginx":
        text = text.replace("listen 443", f"listen 127.0.0.1:{port}")
        text = text.replace("/etc/ssl/certs/advice.pem", f"{directory}/cert.pem")
        text = text.replace("/etc/ssl/private/advice.key", f"{directory}/key.pem")
        config.write_text(NGINX.format(dir=directory, snippet=text))
        command = [installed("nginx", "nginx"), "-p", directory, "-c", config]
    elif kind == "apache":
        names = ["mpm_event", "authz_core", "alias", "ssl", "proxy", "proxy_http", "socache_shmcb"]
        modules = "\n".join(
            f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in names
        )
        config.write_text(APACHE.format(dir=directory, port=port, modules=modules, snippet=text))
        command = [
            installed("apache2", "apache2-bin"),
            "-d",
            directory,
            "-f",
            config,
            "-DFOREGROUND",
        ]
    else:
        config.write_text(CADDY.format(dir=directory, port=port, snippet=text))
        command = [installed("caddy", "caddy"), "run", "--config", config, "--adapter", "caddyfile"]
    log = directory / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={"HOME": str(directory), "PATH": "/usr/bin"}
        )
    try:
        end = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield f"https://{NAME}:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("kind", ["nginx", "apache", "caddy"])
def test_the_page_works_below_a_prefix(
    url: str, open_page: Open, tmp_path: Path, kind: str
) -> None:
    with proxy(kind, url, tmp_path) as origin:
        # Without its last slash the prefix leads to the page as well.
        page = open_page(f"{origin}/imtcp#{DST}")
        expect(page.locator("#name")).to_have_text(DST)
        assert page.url == f"{origin}/imtcp/#{DST}"
        keep_picture(page, f"behind-{kind}")
        page.get_by_role("button", name="2001:db8::7").click()
        expect(page.locator("#name")).to_have_text("2001:db8::7")
        page.get_by_label("Find a path").fill("192.0.2.2")
        expect(page.locator("#found")).to_have_text("1 of 5 paths")
        assert page.locator("#state").inner_text() == ""


def test_the_command_asks_through_the_proxy(url: str, tmp_path: Path) -> None:
    with proxy("nginx", url, tmp_path) as origin:
        local = origin.replace(NAME, "127.0.0.1")
        asked = subprocess.run(
            [ADVICE, "ask", DST, "--url", f"{local}/imtcp", "--ca", tmp_path / "cert.pem"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "measure" in asked.stdout


def test_the_proxy_limits_each_client(url: str, tmp_path: Path) -> None:
    with proxy("nginx", url, tmp_path) as origin:
        health = f"{origin.replace(NAME, '127.0.0.1')}/imtcp/healthz"
        trust = ssl.create_default_context(cafile=tmp_path / "cert.pem")

        def ask(_: int) -> int:
            try:
                with urllib.request.urlopen(health, context=trust) as answer:
                    return answer.status
            except urllib.error.HTTPError as refused:
                return refused.code

        # At once: one after another would be slower than the limit on a busy machine.
        with ThreadPoolExecutor(30) as askers:
            assert set(askers.map(ask, range(300))) == {200, 429}
