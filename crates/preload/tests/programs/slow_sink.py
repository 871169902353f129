"""Takes one connection, and reads it long after the sender has gone."""
import socket, sys, time

with socket.create_server((sys.argv[1], int(sys.argv[2]))) as listener:
    peer, _ = listener.accept()
time.sleep(1)
count = 0
while data := peer.recv(65536):
    count += len(data)
print(count, "bytes, and the end")
