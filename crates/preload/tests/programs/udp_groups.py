"""Members of groups, and a sender to them.

udp_groups.py member ADDRESS COUNT           several sockets, joined in several ways; each is to get COUNT numbers
udp_groups.py guest ADDRESS COUNT            one more member, of another process
udp_groups.py send ADDRESS COUNT             sends COUNT numbers to each group, three times
"""
import select
import socket
import struct
import sys
import time

PORT, OTHER_PORT = 7001, 7002
GROUPS = ["239.198.7.1", "239.198.7.2"]
GROUP_6 = "ff15::7:1"


def bound(port, at="0.0.0.0"):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((at, port))
    return sock


def join(sock, group, address):
    member = socket.inet_aton(group) + socket.inet_aton(address)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)


def before_bind(address):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    join(sock, GROUPS[0], address)
    sock.bind(("0.0.0.0", PORT))
    return sock


def by_number(address):
    sock = bound(PORT)
    index = next(number for number, name in socket.if_nameindex() if name != "lo")
    member = socket.inet_aton(GROUPS[0]) + socket.inet_aton("0.0.0.0") + struct.pack("i", index)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    return sock


def at_group(address):
    sock = bound(OTHER_PORT, GROUPS[1])
    join(sock, GROUPS[1], address)
    return sock


def in_six():
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("::", OTHER_PORT))
    index = next(number for number, name in socket.if_nameindex() if name != "lo")
    member = socket.inet_pton(socket.AF_INET6, GROUP_6) + struct.pack("i", index)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, member)
    return sock


def receive(named, count):
    """Receives until every socket has all numbers, or nothing comes."""
    seen = {name: set() for name, _ in named}
    by_file = {sock.fileno(): (name, sock) for name, sock in named}
    poll = select.poll()
    for _, sock in named:
        sock.setblocking(False)
        poll.register(sock, select.POLLIN)
    end = time.monotonic() + 20
    while time.monotonic() < end and any(len(numbers) < count for numbers in seen.values()):
        for file, _ in poll.poll(1000):
            name, sock = by_file[file]
            seen[name].add(struct.unpack("!I", sock.recv(64))[0])
    for name, numbers in seen.items():
        print(name, len(numbers), flush=True)


def send(address, count):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    index = next(number for number, name in socket.if_nameindex() if name != "lo")
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    # On a busy machine some are lost: each is sent often enough that all come once.
    for _ in range(10):
        for number in range(count):
            data = struct.pack("!I", number)
            for group, port in ((GROUPS[0], PORT), (GROUPS[1], OTHER_PORT)):
                sock.sendto(data, (group, port))
            six.sendto(data, (GROUP_6, OTHER_PORT))
            if number % 8 == 0:
                time.sleep(0.001)


what, address, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
if what == "send":
    send(address, count)
elif what == "guest":
    sock = bound(PORT)
    join(sock, GROUPS[0], address)
    print("joined", flush=True)
    receive([("guest", sock)], count)
else:
    named = [("early", before_bind(address)), ("number", by_number(address)), ("group", at_group(address)), ("six", in_six())]
    print("joined", flush=True)
    receive(named, count)
