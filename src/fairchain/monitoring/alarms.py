"""Alarms of a monitor: a message to a webhook that the user names on the command line.

An alarm contains verdicts, counts and rates of groups; no row of the input. A webhook that fails is reported and tried
again; it never changes the verdict or the exit code.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from threading import Thread
from typing import IO, Any
from urllib.parse import urlsplit

from fairchain.errors import SpecError

TIMEOUT, WEBHOOK_TRIES = 10.0, 3
NO_ANSWER_IN_TIME = "did not answer in time"


def check_webhook(url: str) -> None:
    """Raise a SpecError unless the address is one of the web."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise SpecError("--webhook: write an address that begins with http:// or https://")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The message goes only to the address that the user named."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        """Refuse the redirect."""


def send_alarm(url: str, report: dict[str, Any], *, timeout: float = TIMEOUT, tries: int = WEBHOOK_TRIES) -> str:
    """Send the alarm as JSON by POST; return an empty text, or why it could not be delivered.

    The address may contain a secret, so messages name only its host.
    """
    content, problem = json.dumps(report).encode(), NO_ANSWER_IN_TIME
    for _ in range(tries):
        # The time-out of a socket applies to each piece, and a server may send many small ones.
        found: list[str] = []
        sending = Thread(target=lambda answers=found: answers.append(_sent(url, content, timeout)), daemon=True)
        sending.start()
        sending.join(timeout)
        problem = found[0] if found else NO_ANSWER_IN_TIME
        if not problem:
            return ""
    return f"the webhook at {urlsplit(url).hostname} {problem} ({tries} tries)"


def _sent(url: str, content: bytes, timeout: float) -> str:
    """Send a message once; return an empty text, or the problem."""
    headers = {"Content-Type": "application/json", "User-Agent": "fairchain"}
    request = urllib.request.Request(url, content, headers, method="POST")
    try:
        urllib.request.build_opener(_NoRedirects()).open(request, timeout=timeout).close()
    except urllib.error.HTTPError as error:
        error.close()
        return f"answered {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        return NO_ANSWER_IN_TIME if isinstance(reason, TimeoutError) else type(reason).__name__
    return ""
