"""Echoes datagrams, or sends them and checks what comes back. Payloads say where they come from, and carry a checksum.

udp_echo.py server ADDRESS PORT COUNT MANNER
udp_echo.py client ADDRESS PORT COUNT MANNER [SOCKETS]

MANNER: blocking, nonblocking, poll, epoll, connected
"""
import resource
import select
import socket
import struct
import sys
import zlib

# Below and at the longest datagram of one frame, and beyond it: the kernel cuts and joins those.
SIZES = [0, 1, 18, 64, 512, 1452, 4000]
TIMEOUT = 10
AGAIN = 0.3
END = b"end"


def payload(number, size):
    body = bytes((number * 7 + place) & 255 for place in range(size))
    return struct.pack("!II", number, zlib.crc32(body)) + body if size else b""


def is_whole(data):
    if not data:
        return True
    number, checksum = struct.unpack("!II", data[:8])
    return zlib.crc32(data[8:]) == checksum


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Receiver:
    """Waits for datagrams in one of the manners."""

    def __init__(self, sock, manner):
        self.sock, self.manner = sock, manner
        sock.settimeout(TIMEOUT)
        if manner in ("nonblocking", "poll", "epoll"):
            sock.setblocking(False)
        if manner == "poll":
            self.poll = select.poll()
            self.poll.register(sock, select.POLLIN)
        if manner == "epoll":
            self.poll = select.epoll()
            self.poll.register(sock, select.EPOLLIN)

    def receive(self, seconds=TIMEOUT):
        if self.manner in ("poll", "epoll"):
            scale = 1000 if self.manner == "poll" else 1
            if not self.poll.poll(seconds * scale):
                return None
        elif self.manner == "nonblocking":
            if not select.select([self.sock], [], [], seconds)[0]:
                return None
        else:
            self.sock.settimeout(seconds)
        try:
            return self.sock.recvfrom(65536)
        except (TimeoutError, BlockingIOError):
            return None


def serve(address, port, count, manner):
    sock = socket.socket(family(address), socket.SOCK_DGRAM)
    sock.bind((address, port))
    print("listening", flush=True)
    receiver = Receiver(sock, manner)
    whole, got = 0, 0
    while got < count:
        received = receiver.receive()
        if received is None:
            break
        data, source = received
        got += 1
        whole += is_whole(data)
        sock.sendto(data, source)
    # Answers that were lost are asked for again, until the client has all of them and says so.
    while (received := receiver.receive(1)) is not None and received[0] != END:
        sock.sendto(*received)
    print("served", whole == got and got >= count, flush=True)


def ask(sock, receiver, address, port, data):
    """Sends until the answer comes: datagrams may be lost."""
    for _ in range(20):
        if receiver.manner == "connected":
            sock.send(data)
        else:
            sock.sendto(data, (address, port))
        while (received := receiver.receive(AGAIN)) is not None:
            if received[0] == data and received[1][1] == port:
                return True
    return False


def send(address, port, count, manner, sockets):
    made = []
    for _ in range(sockets):
        sock = socket.socket(family(address), socket.SOCK_DGRAM)
        if manner == "connected":
            sock.connect((address, port))
        else:
            sock.bind(("::" if ":" in address else "0.0.0.0", 0))
        made.append((sock, Receiver(sock, manner)))
    right = 0
    for number in range(count):
        sock, receiver = made[number % sockets]
        size = SIZES[number % len(SIZES)]
        right += ask(sock, receiver, address, port, payload(number, size))
    made[0][0].send(END) if manner == "connected" else made[0][0].sendto(END, (address, port))
    print("echoed", right, flush=True)


# A client may have a thousand sockets.
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
what, address, port, count, manner = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
if what == "server":
    serve(address, port, count, manner)
else:
    send(address, port, count, manner, int(sys.argv[6]) if len(sys.argv) > 6 else 1)
