"""Accepts one connection at a port of the kernel's choice, closes the listener at once, and echoes to the end: `closing_server.py ADDRESS`.
`closing_server.py ADDRESS PORT` is the client."""
import socket, sys, time

address = sys.argv[1]
if len(sys.argv) == 3:
    with socket.create_connection((address, int(sys.argv[2])), timeout=30) as peer:
        for number in range(20):
            peer.sendall(b"%04d" % number)
            assert peer.recv(4, socket.MSG_WAITALL) == b"%04d" % number
            time.sleep(0.01)
    print("echoed")
    sys.exit()
listener = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
print(listener.getsockname()[1], flush=True)
peer, _ = listener.accept()
listener.close()
with peer:
    while data := peer.recv(65536):
        peer.sendall(data)
