#!/usr/bin/env python3
"""The servers of the fake outside, so that egress can be tried both ways.

    outside.py ADDRESS

They listen on every address of their network namespace: HTTP on ports 80 and 8080 (a JSON answer that says which
address was reached and by whom), TCP echo on port 7, DNS on port 53 by UDP and TCP. DNS knows `outside.test` and
every name below it (ADDRESS), `metadata.test` (169.254.169.254) and `private.test` (10.1.0.10): an answer in a
forbidden range must not open a way into it. Any other name does not exist.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import socketserver
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


class Web(BaseHTTPRequestHandler):
    """Answers every request by what it saw of it."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = {
            "server": self.connection.getsockname()[0],
            "client": self.client_address[0],
            "method": self.command,
            "path": self.path,
            "body": body.decode(errors="replace"),
        }
        data = json.dumps(seen).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - names that http.server looks up


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it receives."""

    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.request.sendall(data)


class Dns(socketserver.BaseRequestHandler):
    """What the servers of both transports know."""

    zone: ClassVar[dict[str, str]] = {"metadata.test": "169.254.169.254", "private.test": "10.1.0.10"}


class DatagramDns(Dns):
    """One question, one answer."""

    def handle(self) -> None:
        data, reply = self.request
        reply.sendto(resolve(data, self.zone), self.client_address)


class StreamDns(Dns):
    """The same, with a length before each message."""

    def handle(self) -> None:
        while len(head := self.request.recv(2, socket.MSG_WAITALL)) == 2:
            answer = resolve(self.request.recv(struct.unpack("!H", head)[0], socket.MSG_WAITALL), self.zone)
            self.request.sendall(struct.pack("!H", len(answer)) + answer)


def resolve(query: bytes, zone: dict[str, str]) -> bytes:
    """Answer one DNS message: an A record, no data for other types, or 'no such name' (RFC 1035)."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace").lower())
        at += 1 + query[at]
    question = query[12 : at + 5]
    kind = struct.unpack("!H", query[at + 1 : at + 3])[0]
    address = next((zone[name] for i in range(len(labels)) if (name := ".".join(labels[i:])) in zone), None)
    answers = b""
    if address and kind == 1:
        answers = struct.pack("!HHHIH", 0xC00C, 1, 1, 5, 4) + ipaddress.ip_address(address).packed
    flags = 0x8580 if address else 0x8583
    return query[:2] + struct.pack("!HHHHH", flags, 1, 1 if answers else 0, 0, 0) + question + answers


class ThreadingTcp(socketserver.ThreadingTCPServer):
    """A TCP server whose port can be taken again at once."""

    allow_reuse_address = True
    daemon_threads = True


def main(address: str) -> None:
    """Serve until killed."""
    servers: list[socketserver.BaseServer] = [ThreadingHTTPServer(("", port), Web) for port in (80, 8080)]
    servers.append(ThreadingTcp(("", 7), Echo))
    Dns.zone["outside.test"] = address
    servers += [socketserver.ThreadingUDPServer(("", 53), DatagramDns), ThreadingTcp(("", 53), StreamDns)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
