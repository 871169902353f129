"""What a client may do on a connection; each answer is checked, so that it behaves on any path as on the kernel's."""
import ctypes, errno, fcntl, hashlib, os, select, socket, struct, sys, termios, threading, time

address, port = sys.argv[1], int(sys.argv[2])


def dial(timeout=20):
    end = time.monotonic() + timeout
    while True:
        try:
            return socket.create_connection((address, port), timeout=None)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def refused(work, *numbers):
    try:
        work()
    except OSError as error:
        assert error.errno in numbers, error
        return
    raise AssertionError("it was not refused")


def blocking():
    with dial() as s:
        assert s.getpeername()[:2] == (address, port)
        assert s.getsockname()[1] != 0
        s.sendall(b"hello")
        assert s.recv(2, socket.MSG_PEEK) == b"he"
        assert s.recv(100) == b"hello"
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        refused(lambda: s.recv(1, socket.MSG_DONTWAIT), errno.EAGAIN)
        s.sendall(b"ab", socket.MSG_MORE)
        s.sendall(b"cd")
        assert s.recv(4, socket.MSG_WAITALL) == b"abcd"
        assert s.sendmsg([b"one", b"", b"two"]) == 6
        buffers = [bytearray(2), bytearray(4)]
        got = 0
        while got < 6:
            n, control, flags, _ = s.recvmsg_into([memoryview(bytearray(8))])
            assert control == [] and flags == 0
            got += n
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        assert info[0] == 1, "established"
        assert struct.unpack_from("I", info, 68)[0] > 0, "a round trip was measured"
        s.sendall(b"12345")
        select.select([s], [], [], 10)
        assert struct.unpack("i", fcntl.ioctl(s, termios.FIONREAD, b"\0\0\0\0"))[0] == 5
        assert os.read(s.fileno(), 10) == b"12345"
        os.write(s.fileno(), b"x")
        assert s.recv(10) == b"x"
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1) == b""
        refused(lambda: s.send(b"y"), errno.EPIPE)


def timeouts():
    with dial() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 50_000))
        refused(lambda: s.recv(1), errno.EAGAIN)


def nonblocking():
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.setblocking(False)
    assert s.connect_ex((address, port)) == errno.EINPROGRESS
    poll = select.poll()
    poll.register(s, select.POLLOUT)
    assert poll.poll(10_000) == [(s.fileno(), select.POLLOUT)]
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert s.connect_ex((address, port)) == 0
    assert s.connect_ex((address, port)) == errno.EISCONN
    refused(lambda: s.recv(1), errno.EAGAIN)
    pipe = os.pipe()
    poll = select.poll()
    poll.register(s, select.POLLIN)
    poll.register(pipe[0], select.POLLIN)
    assert poll.poll(0) == [] and poll.poll(30) == []
    os.write(pipe[1], b"z")
    assert poll.poll(10_000) == [(pipe[0], select.POLLIN)]
    os.read(pipe[0], 1)
    s.send(b"ping")
    assert poll.poll(10_000) == [(s.fileno(), select.POLLIN)]
    assert select.select([s, pipe[0]], [s], [s], 5) == ([s], [s], [])
    copy = socket.socket(fileno=os.dup(s.fileno()))
    s.close()
    assert copy.recv(10) == b"ping"
    copy.setblocking(True)
    threading.Timer(0.1, lambda: copy.send(b"later")).start()
    assert copy.recv(10) == b"later"
    copy.close()
    [os.close(end) for end in pipe]


def bulk():
    digest, back = hashlib.sha256(), hashlib.sha256()
    with dial() as s:
        size, part = 8 << 20, os.urandom(100_003)

        def send():
            left = size
            while left:
                piece = part[: min(left, len(part))]
                digest.update(piece)
                s.sendall(piece)
                left -= len(piece)
            s.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        while data := s.recv(65536):
            back.update(data)
        sender.join()
    assert digest.digest() == back.digest()


def file():
    with dial() as s, open("/proc/self/exe", "rb") as binary:
        content = binary.read(300_000)
        binary.seek(0)
        receiver, got = None, bytearray()

        def receive():
            while len(got) < len(content):
                got.extend(s.recv(65536))

        receiver = threading.Thread(target=receive)
        receiver.start()
        sent = 0
        while sent < len(content):
            sent += os.sendfile(s.fileno(), binary.fileno(), sent, len(content) - sent)
        receiver.join()
        assert bytes(got) == content


def refusal():
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    refused(lambda: s.connect((address, 1)), errno.ECONNREFUSED)
    refused(lambda: s.send(b"x"), errno.EPIPE, errno.ENOTCONN)
    s.connect((address, port))
    s.sendall(b"again")
    assert s.recv(5, socket.MSG_WAITALL) == b"again"
    s.close()


def bad_descriptors():
    libc = ctypes.CDLL(None, use_errno=True)
    peer = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton("198.18.0.2"))
    for number in [-1, -7, 1 << 20, 1 << 30]:
        for call in [
            lambda: libc.listen(number, 1),
            lambda: libc.connect(number, peer, len(peer)),
            lambda: libc.accept(number, None, None),
            lambda: libc.close(number),
            lambda: libc.dup(number),
            lambda: libc.read(number, ctypes.create_string_buffer(1), 1),
            lambda: libc.shutdown(number, 1),
        ]:
            assert call() == -1 and ctypes.get_errno() == errno.EBADF


def loopback():
    listener = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(listener.getsockname()) as s:
        peer, _ = listener.accept()
        s.sendall(b"home")
        assert peer.recv(10) == b"home"


for step in [blocking, timeouts, nonblocking, bulk, file, refusal, bad_descriptors, loopback]:
    step()
    print(step.__name__, "good")
