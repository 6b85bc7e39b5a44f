"""A fuzzer of the paper's interface: whatever comes to /RPC2, the answer is a value or a fault."""

from __future__ import annotations

import http.client
import re
import subprocess
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from built import ADVICE

ROOT = Path(__file__).resolve().parent.parent
METHODS = ["EnableGetAdvice", "EnableGetBufferSize", "EnableGetNetInfo", "system.listMethods", "x"]

# Values that Python's own client can send. XML 1.0 has no control characters.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=300)
VALUES = st.recursive(
    st.one_of(
        st.integers(-(2**31), 2**31 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        TEXT,
        st.binary(max_size=100),
        st.datetimes(),
        st.sampled_from(["127.0.0.1", "::1", "localhost", "192.0.2.7", "a..b", "*", "[::1]"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=20,
)
CALLS = st.builds(
    lambda method, values: xmlrpc.client.dumps(tuple(values), method).encode(),
    st.sampled_from(METHODS),
    st.lists(VALUES, max_size=4),
)
TAGS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                f"<{slash}{tag}>"
                for slash in ("", "/")
                for tag in (
                    *("methodCall", "methodName", "params", "param", "value", "array", "data"),
                    *("struct", "member", "name", "int", "i8", "double", "string", "base64"),
                )
            ]
        ),
        st.sampled_from(
            ["<?xml version='1.0'?>", "<!DOCTYPE a [", "]>", "<![CDATA[", "]]>", "&lt;"]
        ),
        st.text(max_size=8),
    ),
    max_size=200,
).map(lambda parts: "".join(parts).encode(errors="replace"))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A call with some bytes gone, doubled or changed."""
    call = bytearray(draw(CALLS))
    for _ in range(draw(st.integers(1, 5))):
        if not call:
            break
        at = draw(st.integers(0, len(call) - 1))
        length = draw(st.integers(0, 20))
        new = draw(
            st.one_of(
                st.just(b""), st.just(bytes(call[at : at + length]) * 2), st.binary(max_size=5)
            )
        )
        call[at : at + length] = new
    return bytes(call)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[http.client.HTTPConnection]:
    db = tmp_path_factory.mktemp("advice") / "history.db"
    command = [ADVICE, "serve", "--db", db, "--listen", "127.0.0.1:0", "--no-ping"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        yield connection
        alive = process.poll() is None
        process.terminate()
    assert alive, "the service has ended"


@settings(
    max_examples=1500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(body=st.one_of(CALLS, mutated(), TAGS, st.binary(max_size=2000)))
def test_whatever_is_called_the_answer_is_a_value_or_a_fault(
    service: http.client.HTTPConnection, body: bytes
) -> None:
    service.request("POST", "/RPC2", body, {"Content-Type": "text/xml"})
    response = service.getresponse()
    text = response.read()
    if len(body) > 16 << 10:
        assert response.status == 413
        return
    assert response.status == 200, text
    try:
        (answer,), _ = xmlrpc.client.loads(text)
    except xmlrpc.client.Fault as fault:
        assert fault.faultString
    else:
        assert isinstance(answer, (dict, list, int, float))
