"""Echoes to all who come, until it is ended."""
import socket, sys, threading


def echo(peer):
    with peer:
        try:
            while data := peer.recv(65536):
                peer.sendall(data)
        except ConnectionError:
            pass


family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family, backlog=64)
print("listens", flush=True)
while True:
    threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
