"""A backup that goes on for ever."""

import socket

stream = socket.create_connection(("10.9.0.2", 5001))
while True:
    stream.sendall(bytes(1 << 16))
