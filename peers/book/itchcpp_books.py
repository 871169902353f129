"""The books of itchcpp, fed with the messages of a file: `itchcpp_books.py time|check FILE INSTRUMENTS FIRST SLICE`.

A slice is handed over as one buffer of ITCH, which its BookManager parses and applies in C++; the figure is to be held against `ours-itch-l3`,
which does the same.
"""

import struct
import sys
import time

from itchcpp.book import BookManager

RECORD = struct.Struct("<QQIIHcBI")


def message(record):
    """A message of ITCH behind its length, as in a BinaryFILE."""
    reference, old, shares, price, locate, kind, buy, _ = record
    head = kind + struct.pack(">HH6s", locate, 0, b"\0\0\0\0\0\1")
    if kind in b"AF":
        body = struct.pack(">QcI8sI", reference, b"B" if buy else b"S", shares, b"S%-7d" % locate, price)
        body += b"MPID" if kind == b"F" else b""
    elif kind == b"U":
        body = struct.pack(">QQII", old, reference, shares, price)
    elif kind == b"D":
        body = struct.pack(">Q", reference)
    else:
        body = struct.pack(">QI", reference, shares)
        if kind in b"EC":
            body += bytes(8)
        if kind == b"C":
            body += struct.pack(">cI", b"Y", price)
    return struct.pack(">H", len(head) + len(body)) + head + body


def main():
    task, path, first, size = sys.argv[1], sys.argv[2], int(sys.argv[4]), int(sys.argv[5])
    if task == "check":
        print("none")
        return
    books = BookManager()
    with open(path, "rb") as file:
        at = 0
        # The messages before the first one are handed over in slices as well; the last of them may be shorter.
        while data := file.read(RECORD.size * (size if at >= first else min(size, first - at))):
            stream = b"".join(map(message, RECORD.iter_unpack(data)))
            start = time.thread_time_ns()
            books.process_stream(stream)
            took = time.thread_time_ns() - start
            count = len(data) // RECORD.size
            if at >= first and count == size:
                print(took / count)
            at += count


main()
