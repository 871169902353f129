"""Congestion control as the host and the program have it: `congestion.py ADDRESS PORT OWN_ADDRESS`; the peer echoes, and comes to us once.

Checks what TCP_CONGESTION tells, and that segments are paced by BBR alone: past the kernel there is no limit otherwise.
"""
import errno, socket, struct, sys

ADDRESS, OWN = (sys.argv[1], int(sys.argv[2])), (sys.argv[3], int(sys.argv[2]))
TCP, CONGESTION = socket.IPPROTO_TCP, socket.TCP_CONGESTION


def of_host(what):
    return f"/proc/sys/net/ipv4/tcp_{what}congestion_control"


def names(what):
    with open(of_host(what)) as file:
        return file.read().split()


def has(peer, name):
    told = peer.getsockopt(TCP, CONGESTION, 16).split(b"\0")[0].decode()
    (rate,) = struct.unpack_from("Q", peer.getsockopt(TCP, socket.TCP_INFO, 256), 104)
    assert (told, rate < 2**64 - 1) == (name, name == "bbr"), (told, name, rate)


def dial(name=None):
    peer = socket.socket()
    if name:
        peer.setsockopt(TCP, CONGESTION, name.encode())
    peer.connect(ADDRESS)
    peer.sendall(b"x")
    assert peer.recv(1) == b"x"
    return peer


OURS = [name for name in ("cubic", "reno", "bbr") if name in names("available_")]
# A network namespace other than the first may have only these as its default.
for name in [name for name in reversed(OURS) if name in names("allowed_")]:
    with open(of_host(""), "w") as file:
        file.write(name)
    with dial() as peer:
        has(peer, name)
print("host good", flush=True)
for first in OURS:
    with dial(first) as peer:
        has(peer, first)
        for name in OURS:
            peer.setsockopt(TCP, CONGESTION, name.encode())
            has(peer, name)
            peer.sendall(b"x" * 100_000)
            assert len(peer.recv(100_000, socket.MSG_WAITALL)) == 100_000
        try:
            peer.setsockopt(TCP, CONGESTION, b"none-such")
        except OSError as error:
            assert error.errno == errno.ENOENT, error
        has(peer, OURS[-1])
print("chosen good", flush=True)
with socket.socket() as listener:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(TCP, CONGESTION, OURS[-1].encode())
    listener.bind(OWN)
    listener.listen()
    print("listens", flush=True)
    peer, _ = listener.accept()
    with peer:
        has(peer, OURS[-1])
        while data := peer.recv(65536):
            peer.sendall(data)
print("inherited good", flush=True)
