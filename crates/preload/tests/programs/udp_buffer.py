"""Datagrams that are not read at once, and datagrams from two sides.

udp_buffer.py full ADDRESS PORT BYTES     has a receive buffer of so many bytes (0: as it comes), reads late, says what came and was dropped
udp_buffer.py fair ADDRESS PORT           reads slowly until it has 100 datagrams of this host and 100 of another
udp_buffer.py send ADDRESS PORT COUNT     sends so many
udp_buffer.py flood ADDRESS PORT          sends until it is told to end
"""
import socket
import struct
import sys
import time

SO_RCVBUFFORCE, SO_RXQ_OVFL = 33, 40


def full(sock, size):
    if size:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, size)
    sock.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
    print("bound", flush=True)
    # All of them are sent before the first is taken.
    sock.recv(2048, socket.MSG_PEEK)
    time.sleep(2)
    sock.settimeout(0.5)
    count, dropped = 0, 0
    try:
        while True:
            _, control, _, _ = sock.recvmsg(2048, 64)
            count += 1
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, SO_RXQ_OVFL):
                    dropped = struct.unpack("I", data[:4])[0]
    except TimeoutError:
        pass
    print("got", count, dropped, flush=True)


def fair(sock, address):
    print("bound", flush=True)
    sock.settimeout(10)
    near, far = 0, 0
    end = time.monotonic() + 20
    while (near < 100 or far < 100) and time.monotonic() < end:
        _, source = sock.recvfrom(2048)
        near, far = near + (source[0] == address), far + (source[0] != address)
        time.sleep(0.0005)
    print("fair", near >= 100 and far >= 100, flush=True)


def send(address, port, count):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for number in range(count):
        sock.sendto(struct.pack("!I", number) + bytes(96), (address, port))
        # The link's frames hold those of 160 ms: so long may the thread that empties them be kept waiting.
        if number % 32 == 0:
            time.sleep(0.005)


def flood(address, port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while True:
        for _ in range(8):
            sock.sendto(bytes(64), (address, port))
        time.sleep(0.001)


what, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if what == "send":
    send(address, port, int(sys.argv[4]))
elif what == "flood":
    flood(address, port)
else:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, port))
    if what == "full":
        full(sock, int(sys.argv[4]))
    else:
        fair(sock, address)
