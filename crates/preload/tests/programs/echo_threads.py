"""Serves connections, each in a thread of its own, until it is ended; each gets back what it sends."""
import socketserver, socket, sys

address, port = sys.argv[1], int(sys.argv[2])


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)


class Server(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


with Server((address, port), Echo) as server:
    print("listening", flush=True)
    server.serve_forever()
