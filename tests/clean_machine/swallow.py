import socket
import threading

server = socket.create_server(("10.9.0.2", 5001))


def swallow(stream: socket.socket) -> None:
    while stream.recv(1 << 20):
        pass


while True:
    threading.Thread(target=swallow, args=[server.accept()[0]], daemon=True).start()
