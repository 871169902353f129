"""The peer of epoll_rules.py: `ADDRESS PORT`. It sends back what it gets. F: it finishes; R: it resets; C and a line with a port:
it connects there."""

import socket
import struct
import sys
import threading


def serve(connection):
    with connection:
        while got := connection.recv(65536):
            if got == b"F":
                connection.shutdown(socket.SHUT_WR)
            elif got == b"R":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            elif got.startswith(b"C"):
                back = socket.create_connection((connection.getpeername()[0], int(got[1:])))
                connection.sendall(b"connected")
                connection.recv(1)
                back.close()
            else:
                connection.sendall(got)


address, port = sys.argv[1:]
listener = socket.create_server((address, int(port)), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
print("listening", flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
