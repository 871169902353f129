"""Connections on which both ends send and receive all the time, or nothing at all, and how each ends.

    outcomes.py dial|serve ADDRESS PORT COUNT busy|idle

An idle one sends a byte when standard input has a line.
"""
import errno, socket, sys, threading, time

role, address, port, count, is_busy = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "busy"
told = threading.Event()


class Connection:
    def __init__(self, s):
        self.socket, self.got, self.ends = s, threading.Event(), {}
        self.threads = [threading.Thread(target=self.run, args=(work,)) for work in [self.send, self.receive]]

    def run(self, work):
        try:
            self.ends[work.__name__] = work()
        except OSError as error:
            self.ends[work.__name__] = errno.errorcode[error.errno]

    def send(self):
        self.socket.sendall(b"first")
        if not is_busy:
            told.wait()
            self.socket.send(b"x")
            return "sent"
        while True:
            self.socket.sendall(b"x" * 3000)
            time.sleep(0.001)

    def receive(self):
        while self.socket.recv(65536):
            self.got.set()
        return "end"


if role == "dial":
    connections = [Connection(socket.create_connection((address, port))) for _ in range(count)]
else:
    listener = socket.create_server((address, port), backlog=64)
    print("listens", flush=True)
    connections = [Connection(listener.accept()[0]) for _ in range(count)]
threads = [thread for connection in connections for thread in connection.threads]
for thread in threads:
    thread.start()
for connection in connections:
    connection.got.wait()
print("going", flush=True)
if not is_busy:
    sys.stdin.readline()
    told.set()
for thread in threads:
    thread.join()
for connection in connections:
    print(connection.ends["receive"], connection.ends["send"])
