"""Serves connections, as many as told, each in a forked child that echoes; the parent closes its copy."""
import socketserver, sys

address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)


class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    block_on_close = True


with Server((address, port), Echo) as server:
    for _ in range(count):
        server.handle_request()
