"""Listens over both families; when told (a line), forks a child that accepts connections, as many as told, and echoes."""
import os, socket, sys

port, count = int(sys.argv[1]), int(sys.argv[2])
listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
print("listens", flush=True)
sys.stdin.readline()
child = os.fork()
if child == 0:
    for _ in range(count):
        peer, _ = listener.accept()
        while data := peer.recv(65536):
            peer.sendall(data)
        peer.close()
    os._exit(0)
print("forked", flush=True)
_, status = os.waitpid(child, 0)
print("the child ended with", status)
