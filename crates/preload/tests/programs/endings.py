"""Accepts connections, and tells how each ends: `endings.py ADDRESS PORT`."""
import socket, sys

family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
print("listens", flush=True)
while True:
    peer, _ = listener.accept()
    peer.sendall(b"x")
    count, how = 0, "finished"
    with peer:
        try:
            while data := peer.recv(65536):
                count += len(data)
        except ConnectionResetError:
            how = "reset"
    print(f"{count} bytes, {how}", flush=True)
