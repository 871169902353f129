"""Sends more than the peer's window takes, and ends without waiting."""
import os, socket, sys, time

end = time.monotonic() + 20
while True:
    try:
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
        break
    except ConnectionRefusedError:
        if time.monotonic() > end:
            raise
        time.sleep(0.05)
left = 6_000_000
s.setblocking(False)
while left:
    try:
        left -= s.send(bytes(min(left, 65536)))
    except BlockingIOError:
        time.sleep(0.01)
if sys.argv[3] == "_exit":
    os._exit(0)
if sys.argv[3] == "close":
    s.close()
