"""Sockets of all kinds under the library, one step for each line that it is sent: the other end looks at the status page meanwhile."""
import os
import socket
import sys

ours, theirs, port = sys.argv[1:]


def said(text):
    print(text, flush=True)
    sys.stdin.readline()


listener = socket.create_server((ours, 7001))
client = socket.create_connection((theirs, int(port)))
copy = socket.socket(fileno=os.dup(client.fileno()))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((ours, 7002))
loopback = socket.create_server(("127.0.0.1", 0))
client.sendall(b"x" * 1000)
assert client.recv(1000, socket.MSG_WAITALL) == b"x" * 1000
said(f"{listener.fileno()} {client.fileno()} {copy.fileno()} {datagrams.fileno()} {loopback.fileno()}")

client.close()
said("one number is left")

if os.fork() == 0:
    inner = socket.create_server(("127.0.0.1", 0))
    said(str(os.getpid()))
    os._exit(0)
os.wait()
copy.close()
datagrams.close()
loopback.close()
said("closed")
