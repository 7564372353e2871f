"""Connects with the rules of Python 3.13. Arguments: port, CA file, certificate, key."""

import socket
import ssl
import sys

port, ca, cert, key = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
context.load_cert_chain(cert, key)
for host in ["localhost", "127.0.0.1"]:
    with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as tcp:
        with context.wrap_socket(tcp, server_hostname=host) as stream:
            stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
            print(b"".join(iter(lambda: stream.recv(4096), b"")).decode().split("\r\n\r\n")[1])
