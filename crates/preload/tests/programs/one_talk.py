"""Connects, gets back what it sends, and closes."""
import socket, sys

with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as peer:
    for length in (1, 1000, 100_000):
        text = bytes(range(256)) * (length // 256 + 1)
        peer.sendall(text)
        got = b""
        while len(got) < len(text):
            part = peer.recv(65536)
            assert part, "the connection has ended"
            got += part
        assert got == text
print("good")
