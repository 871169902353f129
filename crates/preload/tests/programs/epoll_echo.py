"""An echo by epoll: `server ADDRESS PORT COUNT MANNER` serves COUNT connections and ends; `client ADDRESS PORT COUNT MANNER` opens them all,
each with 40 messages of growing length, through one set. MANNER: level, edge, oneshot. A pipe and a timer stand in the same set."""

import errno
import os
import select
import socket
import sys

MESSAGES = 40
PATTERN = bytes(range(251))
MANNERS = {"level": 0, "edge": select.EPOLLET, "oneshot": select.EPOLLONESHOT}


def message(number, connection):
    start = (number * 7 + connection * 13) % 251
    return (PATTERN[start:] + PATTERN * (number // 4 + 1))[: 1 + number * 60]


class Reactor:
    def __init__(self, manner):
        self.set = select.epoll()
        self.manner = MANNERS[manner]
        self.sockets = {}
        self.pipe = os.pipe2(os.O_NONBLOCK)
        self.set.register(self.pipe[0], select.EPOLLIN)
        self.pipe_events = 0

    def add(self, sock, events):
        sock.setblocking(False)
        self.sockets[sock.fileno()] = sock
        self.set.register(sock, events | self.manner)

    def want(self, sock, events):
        self.set.modify(sock, events | self.manner)

    def remove(self, sock):
        self.set.unregister(sock)
        del self.sockets[sock.fileno()]
        sock.close()

    def events(self):
        os.write(self.pipe[1], b"x")
        for number, events in self.set.poll(30):
            if number == self.pipe[0]:
                os.read(number, 64)
                self.pipe_events += 1
            else:
                yield self.sockets[number], events


def read_all(sock):
    """Everything that is there, and whether the peer has finished."""
    pieces = []
    while True:
        try:
            piece = sock.recv(65536)
        except BlockingIOError:
            return b"".join(pieces), False
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)


def server(address, port, count, manner):
    reactor = Reactor(manner)
    listener = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    listener.setblocking(False)
    reactor.sockets[listener.fileno()] = listener
    reactor.set.register(listener, select.EPOLLIN)
    print("listening", flush=True)
    waiting, done = {}, 0
    while done < count:
        for sock, events in reactor.events():
            if sock is listener:
                while True:
                    try:
                        connection, _ = listener.accept()
                    except BlockingIOError:
                        break
                    waiting[connection] = [b"", False]
                    reactor.add(connection, select.EPOLLIN)
                continue
            state = waiting[sock]
            if events & (select.EPOLLIN | select.EPOLLHUP):
                got, ended = read_all(sock)
                state[0] += got
                state[1] |= ended
            while state[0]:
                try:
                    state[0] = state[0][sock.send(state[0]):]
                except BlockingIOError:
                    break
            if state[1] and not state[0]:
                reactor.remove(sock)
                done += 1
            else:
                reactor.want(sock, select.EPOLLIN | (select.EPOLLOUT if state[0] else 0))
    print("served", done, reactor.pipe_events > 0)


def client(address, port, count, manner):
    reactor = Reactor(manner)
    states = {}
    for connection in range(count):
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        # Registered before it is connected, as many programs do.
        reactor.add(sock, select.EPOLLOUT)
        result = sock.connect_ex((address, port))
        assert result in (0, errno.EINPROGRESS), errno.errorcode[result]
        states[sock] = [connection, -1, b"", b""]
    total = 0
    while states:
        for sock, events in reactor.events():
            state = states[sock]
            connection, number, unsent, got = state
            if number < 0:
                if not events & select.EPOLLOUT:
                    reactor.want(sock, select.EPOLLOUT)
                    continue
                error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                assert error == 0, os.strerror(error)
                state[1] = number = 0
                unsent = message(0, connection)
            if events & select.EPOLLIN:
                piece, ended = read_all(sock)
                assert not ended
                got += piece
            while number < MESSAGES and len(got) >= len(message(number, connection)):
                expected = message(number, connection)
                assert got[: len(expected)] == expected, (connection, number)
                got = got[len(expected):]
                number += 1
                total += 1
                unsent = message(number, connection)
            if number == MESSAGES:
                reactor.remove(sock)
                del states[sock]
                continue
            while unsent:
                try:
                    unsent = unsent[sock.send(unsent):]
                except BlockingIOError:
                    break
            state[1:] = [number, unsent, got]
            reactor.want(sock, select.EPOLLIN | (select.EPOLLOUT if unsent else 0))
    print("echoed", total, reactor.pipe_events > 0)


role, address, port, count, manner = sys.argv[1:]
{"server": server, "client": client}[role](address, int(port), int(count), manner)
