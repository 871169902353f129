"""Begins connections, one to each address; when told (a line), waits for them and has each echo."""
import select, socket, sys

port, peers = int(sys.argv[1]), []
for address in sys.argv[2:]:
    peer = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    peer.setblocking(False)
    peer.connect_ex((address, port))
    peers.append(peer)
print("has begun", flush=True)
sys.stdin.readline()
for peer in peers:
    select.select([], [peer], [])
    peer.setblocking(True)
    peer.sendall(b"text")
    peer.shutdown(socket.SHUT_WR)
# The server may have accepted them in another order.
assert [peer.recv(16) for peer in peers] == [b"text"] * len(peers)
print("good")
