"""Connections that carry data both ways, each held by a checksum, until told on standard input. The peer echoes.

    end         no more is sent; all that is under way is received
    more        says so when each has received more
    another     makes another connection, and says so when it has received something
"""
import errno, hashlib, random, socket, sys, threading, time

address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ending = threading.Event()
results, totals, started, threads = {}, {}, {}, []
# Bytes that may be under way at a time.
AHEAD = 100_000


def carry(number):
    try:
        results[number] = stream(number)
    except OSError as error:
        results[number] = errno.errorcode[error.errno]
    started[number].set()


def stream(number):
    random_bytes = random.Random(number)
    sent, got = hashlib.sha256(), hashlib.sha256()
    ahead = 0
    with socket.create_connection((address, port), timeout=30) as s:
        while not ending.is_set() or ahead:
            if not ending.is_set() and ahead < AHEAD:
                data = random_bytes.randbytes(random_bytes.randrange(1, 20_000))
                s.sendall(data)
                sent.update(data)
                ahead += len(data)
            part = s.recv(65536)
            if not part:
                break
            got.update(part)
            ahead -= len(part)
            totals[number] = totals.get(number, 0) + len(part)
            started[number].set()
    return "good" if ahead == 0 and sent.digest() == got.digest() else f"{ahead} bytes are missing"


def begin():
    number = len(threads)
    started[number] = threading.Event()
    threads.append(threading.Thread(target=carry, args=(number,)))
    threads[number].start()
    return number


def wait_for_more():
    before = dict(totals)
    for number, total in before.items():
        while totals[number] < total + 10 * AHEAD and threads[number].is_alive():
            time.sleep(0.005)


for number in [begin() for _ in range(count)]:
    started[number].wait(30)
print("going", flush=True)
for line in sys.stdin:
    if line == "more\n":
        wait_for_more()
        print("more", flush=True)
    elif line == "another\n":
        started[begin()].wait(30)
        print("another", flush=True)
    else:
        break
ending.set()
for thread in threads:
    thread.join()
bad = [f"{number}: {results.get(number)}" for number in range(len(threads)) if results.get(number) != "good"]
print("\n".join(bad) or "all good", flush=True)
