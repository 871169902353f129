"""A connection that does not wait, to an address that nobody has: its own port is known at once."""

import errno
import socket
import sys

family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family, socket.SOCK_STREAM) as connecting:
    connecting.setblocking(False)
    begun = connecting.connect_ex((sys.argv[1], 9000))
    address, port = connecting.getsockname()[:2]
    peer = connecting.connect_ex((sys.argv[1], 9000))
    print(errno.errorcode[begun], port != 0, address == sys.argv[2], errno.errorcode[peer])
