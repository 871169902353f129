"""Accepts a connection over IPv4 and one over IPv6 at one socket, closes the listener, prints how each peer is shown, and echoes."""
import socket, threading

listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
print(listener.getsockname()[1], flush=True)


def echo(peer):
    with peer:
        while data := peer.recv(65536):
            peer.sendall(data)


peers = [listener.accept()[0] for _ in range(2)]
listener.close()
for peer in peers:
    print(peer.getpeername()[0], peer.getsockname()[0], flush=True)
threads = [threading.Thread(target=echo, args=[peer]) for peer in peers]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
