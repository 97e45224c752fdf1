"""HTTP client for one service: persistent connections, several requests at a time, a rate limit, retries.

Everything is limited: the seconds of a request, the size of a response, the number of retries. Redirects are not
followed, so that a request, with its credentials, goes only to the host that the user named. Results are in the order
of the requests, so the order in which requests end, and the pauses between retries, do not affect them.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from fairchain.errors import ModelError, StoppedError
from fairchain.messages import in_a_line

Part = TypeVar("Part")
Found = TypeVar("Found")
# Statuses after which a retry may succeed: time-outs, too many requests, and a server that is not ready or fails.
RETRIED = (408, 425, 429, 500, 502, 503, 504)
# Seconds before the first retry, which double with each, and the longest pause that a server may request.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 120.0
# Largest number of bytes of a response; of the text that a message quotes; that are read at once.
LARGEST_RESPONSE, QUOTED, READ_AT_ONCE = 64 * 2**20, 200, 2**16
LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Parts of the names of headers that contain credentials.
SECRET = ("auth", "key", "token", "cookie", "secret", "password")
NOT_A_URL = "{url}: not an address of a service; give http://HOST:PORT/PATH or https://HOST/PATH"
SECRET_IN_URL = (
    "the address of the service has a user name, a password, a query or a fragment; credentials are given as a header "
    "from an environment variable: --header-from NAME (headers=... in Python)"
)
BAD_HEADER = "{source}: write a header as Name: value, on one line"
PLAIN_CREDENTIALS = (
    "{url}: a header with credentials would be sent over http without encryption; use https, or a service on this "
    "computer"
)
REDIRECTED = "{url}: redirects to {target}; redirects are not followed, so give that address if you trust it"
REFUSED = "{url}: refused the request with status {status}: {message}"
GAVE_UP = "{url}: no answer after {tries} tries: {problem}"
ANSWER_TOO_LARGE = "{url}: answered with more than {most:,} bytes"
TOO_LONG_A_PAUSE = "{url}: requests a pause of {seconds:,.0f} s before the next request; run it again then"


class _RetryError(Exception):
    """The reason why a request is sent again, and the shortest pause in seconds."""

    def __init__(self, problem: str, pause: float = 0.0) -> None:
        super().__init__(problem)
        self.pause = pause


class _IdleClosedError(Exception):
    """The server closed an idle connection before it read the request, which is sent on another one."""


class HttpClient:
    """Client for requests to the host of one address; `from_service.Service` describes its parameters.

    No message, file or copy of this object contains the headers. `rate` is the largest number of requests per second,
    including retries; `timeout` is from the first byte of a request to the last byte of its response. `requests` and
    `seconds` count the answered requests with a body and their time, and `retried` the retries.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], connections: int, rate: float | None, timeout: float, retries: int
    ) -> None:
        self.address = checked_url(url)
        self._headers = dict(headers)
        for name, value in self._headers.items():
            plain = all(isinstance(text, str) and text.isascii() and text.isprintable() for text in (name, value))
            # A token in the sense of HTTP: no blanks, and no character that could start another header.
            if not plain or not name or set(name) & set(' :"(),/;<=>?@[]{}\\'):
                raise ModelError(BAD_HEADER.format(source="headers"))
        secret = any(word in name.lower() for name in self._headers for word in SECRET)
        if secret and self.address.scheme == "http" and self.address.hostname not in LOOPBACK:
            raise ModelError(PLAIN_CREDENTIALS.format(url=self.url))
        self.connections, self._rate, self._timeout, self._retries = connections, rate, timeout, retries
        self.requests = self.retried = 0
        self.seconds = 0.0
        self._idle: list[http.client.HTTPConnection] = []
        weakref.finalize(self, _close, self._idle)
        # Requests in flight, by connection: their deadline, and the socket, which the connection drops as soon as the
        # server announces that it will close it.
        self._deadlines: dict[http.client.HTTPConnection, tuple[float, socket.socket | None]] = {}
        self._watching = False
        self._next = 0.0
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def url(self) -> str:
        """The address, without credentials."""
        return self.address.geturl()

    def __reduce__(self) -> Any:
        raise TypeError("a service is called by one process, with several connections; leave the executor out")

    def send(self, method: str, path: str, body: bytes | None = None, stop: Event | None = None) -> bytes:
        """Return the body of the response to one request; raise a ModelError if all retries fail, or it is refused.

        A StoppedError is raised if `stop` is set before the request is sent, or while it waits for its turn.
        """
        pause, attempt = FIRST_PAUSE, 0
        while True:
            self._pause(0.0, stop)
            if self._rate is not None:
                with self._lock:
                    turn = max(self._next, time.monotonic())
                    self._next = turn + 1 / self._rate
                self._pause(turn - time.monotonic(), stop)
            try:
                return self._once(method, path, body)
            except _IdleClosedError:
                # There are no more of these than connections.
                continue
            except _RetryError as problem:
                if attempt == self._retries:
                    raise ModelError(GAVE_UP.format(url=self.url, tries=attempt + 1, problem=problem)) from None
                if problem.pause > LONGEST_PAUSE:
                    raise ModelError(TOO_LONG_A_PAUSE.format(url=self.url, seconds=problem.pause)) from None
                # Jitter, so that clients that were refused together do not retry together.
                self._pause(max(problem.pause, pause * random.uniform(0.5, 1.0)), stop)
                pause, attempt = 2 * pause, attempt + 1
                with self._lock:
                    self.retried += 1

    def submit(self, function: Callable[[Part], Found], part: Part) -> Future[Found]:
        """Let a function send one request as soon as a connection is free."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.connections, "fairchain-service")
        return self._pool.submit(function, part)

    def map(
        self,
        function: Callable[[Part], Found],
        parts: Sequence[Part],
        stop: Event | None,
        then: Callable[[], None] | None,
    ) -> Generator[Found, None, None]:
        """Yield the result of a function that sends one request for each part, in order, several at a time.

        If `stop` is set, no further request is sent, the function waits for those in flight, and a StoppedError is
        raised. `then` is called when no part waits to be submitted, so that it can submit others after them.
        """
        waiting: deque[Future[Found]] = deque()
        place = 0
        try:
            while place < len(parts) or waiting or then is not None:
                while place < len(parts) and len(waiting) < 4 * self.connections:
                    waiting.append(self.submit(function, parts[place]))
                    place += 1
                if place == len(parts) and then is not None:
                    then()
                    then = None
                    continue
                yield waiting.popleft().result()
                if stop is not None and stop.is_set():
                    raise StoppedError
        finally:
            for future in waiting:
                future.cancel()
            # Requests in flight may cost money, so their answers are kept.
            for future in waiting:
                if not future.cancelled():
                    future.exception()

    @staticmethod
    def _pause(seconds: float, stop: Event | None) -> None:
        """Wait; raise a StoppedError if `stop` is set before the end."""
        if (stop or Event()).wait(max(0.0, seconds)):
            raise StoppedError

    def _once(self, method: str, path: str, body: bytes | None) -> bytes:
        with self._lock:
            kind = http.client.HTTPSConnection if self.address.scheme == "https" else http.client.HTTPConnection
            host, port = self.address.hostname or "", self.address.port
            connection = self._idle.pop() if self._idle else kind(host, port, timeout=self._timeout)
            fresh = connection.sock is None
            start = time.monotonic()
            deadline = start + self._timeout
            self._deadlines[connection] = deadline, connection.sock
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, daemon=True, name="fairchain-timeouts").start()
        keep = False
        try:
            headers = {"Accept": "application/json", **self._headers}
            if body is not None:
                headers["Content-Type"] = "application/json"
            if fresh:
                connection.connect()
                with self._lock:
                    self._deadlines[connection] = deadline, connection.sock
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = self._body(response, deadline)
            keep = not response.will_close
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() - start >= self._timeout or isinstance(error, TimeoutError):
                raise _RetryError(f"no answer within {self._timeout:g} s") from None
            if isinstance(error, socket.gaierror):
                raise ModelError(GAVE_UP.format(url=self.url, tries=1, problem="unknown host")) from None
            if not fresh and isinstance(error, http.client.RemoteDisconnected | ConnectionError):
                raise _IdleClosedError from None
            problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise _RetryError(in_a_line(problem)[:QUOTED]) from None
        finally:
            with self._lock:
                del self._deadlines[connection]
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()
        self._read_status(response, content)
        if body is not None:
            with self._lock:
                self.requests += 1
                self.seconds += time.monotonic() - start
        return content

    def _body(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        """Return the body of a response, which must be complete, of a limited size, and in time."""
        # Read in pieces: reading a whole chunk trusts its stated size, which may be -1.
        content = bytearray()
        with response:
            while piece := response.read1(READ_AT_ONCE):
                content += piece
                if len(content) > LARGEST_RESPONSE:
                    raise ModelError(ANSWER_TOO_LARGE.format(url=self.url, most=LARGEST_RESPONSE))
                if time.monotonic() > deadline:
                    break
        if time.monotonic() > deadline:
            raise _RetryError(f"took longer than {self._timeout:g} s")
        if response.length:
            raise http.client.IncompleteRead(bytes(content), response.length)
        return bytes(content)

    def _read_status(self, response: http.client.HTTPResponse, content: bytes) -> None:
        """Raise an error unless the status is 200."""
        status = response.status
        if status == 200:
            return
        if 300 <= status < 400:
            target = in_a_line(response.getheader("Location") or "another address")[:QUOTED]
            raise ModelError(REDIRECTED.format(url=self.url, target=target))
        message = in_a_line(" ".join(content[: 4 * QUOTED].decode("utf-8", "replace").split()))[:QUOTED]
        if status in RETRIED:
            raise _RetryError(f"status {status}: {message}", _retry_after(response.getheader("Retry-After")))
        raise ModelError(
            REFUSED.format(url=self.url, status=status, message=message or in_a_line(response.reason)[:QUOTED])
        )

    def _watch(self) -> None:
        """Close connections whose request takes too long: a server that sends a byte at intervals never times out."""
        while True:
            with self._lock:
                now = time.monotonic()
                for connection, (deadline, used) in self._deadlines.items():
                    opened = used or connection.sock
                    if now > deadline and opened is not None:
                        with suppress(OSError):
                            opened.shutdown(socket.SHUT_RDWR)
                if not self._deadlines:
                    self._watching = False
                    return
            time.sleep(min(0.25, self._timeout / 4))


def _close(connections: list[http.client.HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def checked_url(url: str) -> SplitResult:
    """Return the parts of a service's address; refuse one with credentials, which would be printed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ModelError(NOT_A_URL.format(url=in_a_line(url)[:QUOTED])) from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ModelError(SECRET_IN_URL)
    known = parts.scheme in ("http", "https") and parts.hostname and port != 0
    if not known or not url.isascii() or not url.isprintable() or " " in url:
        raise ModelError(NOT_A_URL.format(url=in_a_line(url)[:QUOTED]))
    return parts


def _retry_after(header: str | None) -> float:
    """Return the seconds that a server requests as a pause: a number, or a date."""
    with suppress(ValueError, OverflowError):
        return max(0.0, float(int(header or 0)))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(header or "").timestamp() - time.time())
    return 0.0
