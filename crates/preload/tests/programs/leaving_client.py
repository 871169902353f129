"""Connections that leave for the kernel while they live: fork, exec, SCM_RIGHTS, urgent data. The peer echoes."""
import array, os, socket, subprocess, sys, time

address, port = sys.argv[1], int(sys.argv[2])


def dial():
    end = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def talk(s, text):
    s.sendall(text)
    got = b""
    while len(got) < len(text):
        part = s.recv(65536)
        assert part, "the connection has ended"
        got += part
    assert got == text, (got, text)


def forked():
    with dial() as s:
        talk(s, b"before")
        s.sendall(b"unread")
        time.sleep(0.1)
        child = os.fork()
        if child == 0:
            got = s.recv(6, socket.MSG_WAITALL)
            talk(s, b"child" * 1000)
            os._exit(0 if got == b"unread" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        talk(s, b"parent")


def passed():
    with dial() as s:
        talk(s, b"before")
        ours, theirs = socket.socketpair()
        script = "import socket; u = socket.socket(fileno=0); _, [n], *_ = socket.recv_fds(u, 10, 1); s = socket.socket(fileno=n); s.sendall(b'passed'); assert s.recv(6, socket.MSG_WAITALL) == b'passed'; u.send(b'done')"
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        child = subprocess.Popen([sys.executable, "-c", script], stdin=theirs.fileno(), env=environment)
        socket.send_fds(ours, [b"x"], [s.fileno()])
        assert ours.recv(4) == b"done"
        assert child.wait() == 0
        talk(s, b"after")


def urgent():
    with dial() as s:
        talk(s, b"before")
        assert s.send(b"!", socket.MSG_OOB) == 1
        s.sendall(b"after")
        assert s.recv(5, socket.MSG_WAITALL) == b"after"


def executed():
    s = dial()
    talk(s, b"before")
    os.set_inheritable(s.fileno(), True)
    script = f"import socket; s = socket.socket(fileno={s.fileno()}); s.sendall(b'new program'); assert s.recv(11, socket.MSG_WAITALL) == b'new program'; print('executed good')"
    os.execv(sys.executable, [sys.executable, "-c", script])


for step in [forked, passed, urgent, executed]:
    step()
    print(step.__name__, "good", flush=True)
