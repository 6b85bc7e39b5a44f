# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One request over HTTP and its answer, within a time."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Mapping

#: An answer has some 7 kB; this bounds the memory that a wrong service takes.
MOST_ANSWER_BYTES = 16 << 20


class Exchange(threading.Thread):
    """A request and its answer, in a thread of their own.

    The caller leaves the thread alone when the time is up: nothing ends the lookup of a name, and
    a socket's own timeout begins again with each byte.
    """

    def __init__(
        self,
        connect: Callable[[], http.client.HTTPConnection],
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._method = "GET" if body is None else "POST"
        self._path, self._body, self._headers = path, body, headers
        self._socket: socket.socket | None = None
        self._over = False
        self._answer: tuple[int, bytes] | Exception = TimeoutError()

    def wait(self, seconds: float) -> tuple[int, bytes]:
        """The status and the body, which is at most one byte over the limit."""
        try:
            self.start()
        except RuntimeError as e:
            raise OSError(str(e)) from e
        try:
            self.join(seconds)
        finally:
            answer = self._answer
            self._over = True
            if self._socket:
                # It is closed already if the answer is there.
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self) -> None:
        try:
            # Made in this thread: it reads the system's certificates, which may take long.
            with contextlib.closing(self._connect()) as connection:
                connection.connect()
                # The connection forgets its socket after the answer's head, before the body.
                self._socket = connection.sock
                if self._over:
                    return
                connection.request(self._method, self._path, self._body, dict(self._headers))
                with connection.getresponse() as answer:
                    self._answer = answer.status, answer.read(MOST_ANSWER_BYTES + 1)
        except Exception as e:
            self._answer = e
