"""Holds a connection, with a child that has it, too, and leaves it alone; talks over it as often as told, after a while each time."""
import os, socket, sys, time

address, port, manner, rounds = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
peer = socket.create_connection((address, port), timeout=30)


def talk(text):
    peer.sendall(text)
    got = b""
    while len(got) < len(text):
        part = peer.recv(65536)
        assert part, "the connection has ended"
        got += part
    assert got == text


talk(b"first")
if manner == "child" and os.fork() == 0:
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    time.sleep(float(sys.argv[5]))
    os._exit(0)
print("holds", flush=True)
for turn in range(rounds):
    time.sleep(0.02)
    talk(bytes(range(256)) * (1 + turn % 40))
print("good", flush=True)
