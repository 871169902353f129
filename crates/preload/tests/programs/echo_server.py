"""Serves connections one after the other, as many as told; each gets back what it sends."""
import socket, sys

address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.create_server((address, port), family=family) as listener:
    for _ in range(count):
        peer, _ = listener.accept()
        with peer:
            while data := peer.recv(65536):
                peer.sendall(data)
