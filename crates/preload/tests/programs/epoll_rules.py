"""The rules of epoll(7), one by one: `ADDRESS PORT` of epoll_peer.py. What is said is the same whoever carries the connections."""

import errno
import os
import select
import signal
import socket
import sys
import threading
import time

ADDRESS = sys.argv[1], int(sys.argv[2])
FAMILY = socket.AF_INET6 if ":" in ADDRESS[0] else socket.AF_INET
IN, OUT, ET, ONESHOT = select.EPOLLIN, select.EPOLLOUT, select.EPOLLET, select.EPOLLONESHOT
RDHUP, EXCLUSIVE = select.EPOLLRDHUP, select.EPOLLEXCLUSIVE


def connected():
    return socket.create_connection(ADDRESS)


def say(sock, text=b"x"):
    """Sends, and returns when the echo can be read."""
    sock.sendall(text)
    sock.recv(len(text), socket.MSG_PEEK)


def error(call, *arguments):
    try:
        call(*arguments)
    except OSError as problem:
        return errno.errorcode[problem.errno]
    return "good"


def events(epoll, timeout=0, most=-1):
    return sorted(events for _, events in epoll.poll(timeout, most))


def mistakes():
    epoll, sock = select.epoll(), connected()
    yield error(epoll.modify, sock, IN), error(epoll.unregister, sock)
    yield error(epoll.register, sock, IN | EXCLUSIVE | ONESHOT), error(epoll.register, sock, IN), error(epoll.register, sock, IN)
    yield error(epoll.modify, sock, IN | EXCLUSIVE), error(epoll.register, epoll, IN), error(epoll.register, 1000, IN)
    yield error(epoll.unregister, sock), error(epoll.register, sock, IN | EXCLUSIVE), error(epoll.modify, sock, IN)
    number = sock.fileno()
    sock.close()
    yield error(epoll.unregister, number), error(epoll.modify, number, IN)


def triggers():
    for manner in (0, ET, ONESHOT, ET | ONESHOT):
        epoll, sock = select.epoll(), connected()
        epoll.register(sock, IN | manner)
        yield events(epoll)
        say(sock)
        yield events(epoll, 5), events(epoll), events(epoll)
        say(sock, b"yy")
        time.sleep(0.05)
        yield events(epoll), sock.recv(9)
        yield events(epoll)
        epoll.modify(sock, IN | OUT | manner)
        yield events(epoll), events(epoll)
        sock.close()
        yield events(epoll)


def ends():
    for text, manner in ((b"F", 0), (b"F", RDHUP), (b"R", 0), (b"F", RDHUP | ET)):
        epoll, sock = select.epoll(), connected()
        epoll.register(sock, IN | OUT | manner)
        yield events(epoll)
        sock.sendall(text)
        time.sleep(0.1)
        yield events(epoll)
        if text == b"F":
            sock.shutdown(socket.SHUT_WR)
            time.sleep(0.1)
            yield events(epoll)
        epoll.modify(sock, 0)
        yield events(epoll)
        sock.close()


def before_connect():
    """Registered first: it keeps its place, with its interest."""
    for manner in (0, ET, ONESHOT):
        epoll, sock = select.epoll(), socket.socket(FAMILY)
        sock.setblocking(False)
        epoll.register(sock, OUT | manner)
        epoll.poll(0)
        if manner == ONESHOT:
            epoll.modify(sock, OUT | manner)
        yield errno.errorcode[sock.connect_ex(ADDRESS)], events(epoll, 5), sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        yield error(epoll.register, sock, IN), error(epoll.modify, sock, IN)
        sock.send(b"x")
        yield events(epoll, 5), error(epoll.unregister, sock)
        sock.close()


def duplicates():
    epoll, sock = select.epoll(), connected()
    epoll.register(sock, IN)
    other = sock.dup()
    epoll.register(other, IN)
    say(sock)
    yield events(epoll, 5)
    number = sock.fileno()
    sock.close()
    yield events(epoll), error(epoll.unregister, number)
    yield epoll.poll(0) and len(epoll.poll(0))
    other.close()
    yield events(epoll)
    # Another socket by the same number is another item.
    same = connected()
    if same.fileno() != number:
        os.dup2(same.fileno(), number)
    yield error(epoll.register, number, IN), events(epoll)
    os.write(number, b"x")
    yield epoll.poll(5) == [(number, IN)]


def many_sets():
    sock = connected()
    sets = [select.epoll() for _ in range(3)]
    for epoll, manner in zip(sets, (0, ET, ONESHOT)):
        epoll.register(sock, IN | manner)
    say(sock)
    yield [events(epoll, 5) for epoll in sets], [events(epoll) for epoll in sets]
    sets[0].close()
    say(sock, b"yy")
    time.sleep(0.05)
    yield [events(epoll) for epoll in sets[1:]]


def nested():
    inner, outer, sock = select.epoll(), select.epoll(), connected()
    outer.register(inner, IN)
    inner.register(sock, IN)
    yield error(inner.register, outer, IN), events(outer)
    say(sock)
    yield events(outer, 5), events(inner), events(outer)
    poll = select.poll()
    poll.register(outer, select.POLLIN)
    yield [event for _, event in poll.poll(0)], len(select.select([outer, inner], [], [], 0)[0])
    sock.recv(9)
    yield events(outer), poll.poll(0), select.select([outer], [], [], 0)[0]
    chain = [outer]
    while (outcome := error((new := select.epoll()).register, chain[-1], IN)) == "good":
        chain.append(new)
    yield outcome, len(chain)
    # A thread sleeps in the outer set, and in poll(2) on it.
    threading.Timer(0.2, sock.sendall, (b"z",)).start()
    yield events(outer, 5)
    sock.recv(9)
    threading.Timer(0.2, sock.sendall, (b"z",)).start()
    yield len(poll.poll(5000))


def small_lists():
    """Kernel's and others, each has its turn."""
    epoll, socks, pipes = select.epoll(), [connected() for _ in range(5)], [os.pipe() for _ in range(4)]
    for sock in socks:
        say(sock)
        epoll.register(sock, IN)
    for pipe in pipes:
        os.write(pipe[1], b"x")
        epoll.register(pipe[0], IN)
    yield len(epoll.poll(0))
    for most in (1, 2, 3, 8):
        seen = {}
        for _ in range(100):
            for number, _ in epoll.poll(0, most):
                seen[number] = seen.get(number, 0) + 1
        yield most, len(seen)
    # Sockets that are ready may have a list to themselves for some microseconds.
    time.sleep(0.01)
    yield len(epoll.poll(0))


def sleepers():
    sock, pipe = connected(), os.pipe()
    # A thread sleeps while there is nothing but a pipe in its set, and another adds a socket.
    epoll, got = select.epoll(), []
    epoll.register(pipe[0], IN)
    thread = threading.Thread(target=lambda: got.append(events(epoll, 10)))
    thread.start()
    time.sleep(0.2)
    sock.sendall(b"x")
    epoll.register(sock, IN)
    thread.join()
    yield got
    yield events(epoll), sock.recv(9), events(epoll)
    # The pipe wakes one that sleeps for both.
    threading.Timer(0.2, os.write, (pipe[1], b"x")).start()
    yield events(epoll, 10), os.read(pipe[0], 9)
    start = time.monotonic()
    yield events(epoll, 0.15), 0.15 <= time.monotonic() - start < 5
    # An edge is one thread's.
    epoll.modify(sock, IN | ET)
    epoll.poll(0)
    got = []
    threads = [threading.Thread(target=lambda: got.append(events(epoll, 1))) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    sock.sendall(b"x")
    for thread in threads:
        thread.join()
    yield sorted(got)
    # A set that is closed while a thread waits.
    got = []
    thread = threading.Thread(target=lambda: got.append(os_wait(epoll)))
    thread.start()
    time.sleep(0.1)
    epoll.close()
    sock.sendall(b"y")
    thread.join()
    yield got


def os_wait(epoll):
    return events(epoll, 1)


def signals():
    epoll, sock = select.epoll(), connected()
    epoll.register(sock, IN)

    def handler(*_):
        raise InterruptedError

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        yield epoll.poll(10)
    except InterruptedError:
        yield "interrupted"


def listeners():
    """Both sides of a listener are ready: it is told once."""
    for manner in (0, ONESHOT):
        epoll, sock = select.epoll(), connected()
        listener = socket.create_server(("::" if FAMILY == socket.AF_INET6 else "0.0.0.0", 0), family=FAMILY)
        port = listener.getsockname()[1]
        epoll.register(listener, IN | manner)
        yield events(epoll)
        sock.sendall(b"C%d" % port)
        sock.recv(9)
        local = socket.create_connection(("::1" if FAMILY == socket.AF_INET6 else "127.0.0.1", port))
        time.sleep(0.1)
        yield events(epoll), events(epoll)
        accepted = [listener.accept()[0] for _ in range(2)]
        yield events(epoll), len(accepted)
        sock.close(), listener.close(), local.close()
        yield events(epoll)


for case in (mistakes, triggers, ends, before_connect, duplicates, many_sets, nested, small_lists, sleepers, signals, listeners):
    for number, line in enumerate(case()):
        print(case.__name__, number, line, flush=True)
