"""A connection that a child uses, forked when standard input has a line. Both say what became of it. The peer echoes."""
import errno, os, socket, sys

peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)


def talk(text):
    try:
        peer.sendall(text)
        return "good" if peer.recv(len(text), socket.MSG_WAITALL) == text else "another answer"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


print(talk(b"alone"), flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        print("child", talk(b"child"), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print("parent", talk(b"parent"), flush=True)
