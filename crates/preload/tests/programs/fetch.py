"""Asks a web server for pages, over many connections, several at a time; each has to be the right one."""
import http.client, sys, threading, time

address, port, threads, rounds = sys.argv[1], int(sys.argv[2]), 8, 12
wrong = []


def connect():
    end = time.monotonic() + 20
    while True:
        try:
            server = http.client.HTTPConnection(address, port, timeout=20)
            server.connect()
            return server
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def fetch(thread):
    try:
        for turn in range(rounds):
            server = connect()
            for page in range(5):
                path = f"/{thread}/{turn}/{page}"
                server.request("GET", path)
                answer = server.getresponse()
                text = answer.read().decode()
                if (answer.status, text) != (200, f"page of {path}\n"):
                    wrong.append((path, answer.status, text))
            server.close()
    except Exception as error:
        wrong.append((thread, repr(error)))


all = [threading.Thread(target=fetch, args=(number,)) for number in range(threads)]
[thread.start() for thread in all]
[thread.join() for thread in all]
print("wrong:", wrong)
