"""Connections with options that the kernel alone follows: `odd_options.py ADDRESS PORT`. The peer echoes."""
import select, socket, struct, sys, time

ADDRESS = (sys.argv[1], int(sys.argv[2]))
SO_ZEROCOPY, SO_TIMESTAMPNS, TCP_MD5SIG, MSG_ZEROCOPY = 60, 35, 14, 0x4000000
KEY = struct.pack("=HH4s120sBBHI80s", socket.AF_INET, socket.htons(ADDRESS[1]), socket.inet_aton(ADDRESS[0]), b"", 0, 0, 3, 0, b"key")


def stamps(peer):
    # The kernel begins to stamp what it receives a while after the first socket has asked for it.
    end, told = time.monotonic() + 10, []
    while not told and time.monotonic() < end:
        peer.sendall(b"ask")
        _, told, _, _ = peer.recvmsg(3, 1024)
    return [kind for _, kind, _ in told]


def completions(peer):
    peer.send(b"ask", MSG_ZEROCOPY)
    poll = select.poll()
    poll.register(peer, 0)
    return [event & select.POLLERR for _, event in poll.poll(3000)]


def echo(peer):
    peer.sendall(b"ask")
    return peer.recv(3)


def run(name, level, option, value, use, times=(True, False)):
    for is_early in times:
        with socket.socket() as peer:
            peer.settimeout(1)
            try:
                if is_early:
                    peer.setsockopt(level, option, value)
                peer.connect(ADDRESS)
                peer.sendall(b"x")
                peer.recv(1)
                if not is_early:
                    peer.setsockopt(level, option, value)
                print(name, is_early, use(peer), flush=True)
            except OSError as error:
                print(name, is_early, error, flush=True)


run("zerocopy", socket.SOL_SOCKET, SO_ZEROCOPY, 1, completions)
run("stamps", socket.SOL_SOCKET, SO_TIMESTAMPNS, 1, stamps)
run("device", socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo", echo, [True])
run("md5", socket.IPPROTO_TCP, TCP_MD5SIG, KEY, lambda peer: "connected")
