"""Becomes another program while it has a connection that exec closes, or one that it has closed with bytes unsent:
`becomes_sleep.py ADDRESS PORT open|closed BYTES`."""
import os, socket, sys

peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
assert peer.recv(1) == b"x"
peer.sendall(bytes(int(sys.argv[4])))
if sys.argv[3] == "closed":
    peer.close()
os.execv("/bin/sleep", ["sleep", "60"])
