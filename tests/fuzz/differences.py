"""The known differences between our connections and uvicorn's, each with its reason. Any other one is a finding.

Our outcome is compared with that of uvicorn for the same bytes. Where they differ, uvicorn gets the bytes once more,
changed so that each known difference goes away (`_Reference`): then the outcomes must be the same, except that ours may
stop earlier for a reason that is visible in the request at which it stops.
"""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import httptools

from ingress.http.uvicorn_protocol import MAX_HEAD_BYTES
from tests.fuzz.wire import NO_BODY_READ, Answer, Both, Outcome

REASONS = {
    "a request is answered before bytes after it are refused": "uvicorn forgets the answers that are not written yet",
    "no refusal after such answers": "the answer to the last whole request says that the connection closes",
    "another protocol is ignored": "the parser would take a request with `Upgrade` for one without a body",
    "an unknown method reaches the application": "a method that HTTP does not know is answered 405 with `Allow`",
    "CONNECT reaches the application": "the parser would take it for a request without a body",
    "CONNECT ends the connection": "parsers disagree whether it has a body",
    "trailers are no headers": "uvicorn appends them to the headers, so a trailer could pass for one",
    "another version": "only HTTP/1.1 and HTTP/1.0 have the framing that we read",
    "another encoding": "an encoding other than `chunked` can be read in two ways",
    "Host": "RFC 9112, 3.2: an HTTP/1.1 request without Host is refused, and each with more than one",
    "a large head": "an address or headers over 32 KiB would fill the memory",
    "too many requests wait": "at most 16 requests wait for their answers",
    "HTTP/1.0 gets no 100": "RFC 9110, 10.1.1: a server ignores such an expectation, for the client knows no 100",
    "answered before 100-continue": "nobody knows whether the next bytes are the body",
    "a body is read to its end": "RFC 9112, 9.6: a client that still sends would see a reset, and not its answer",
}

_PLAIN = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"}
_STAND_IN = b"UNLINK"
_OTHER_METHOD = re.compile(rb"[!#$%&'*+.^`|~\w-]{1,64}(?= )", re.ASCII)
_UPGRADE = re.compile(rb"(?i)(?<=\n)upgrade(?=:)")
_ENCODING = re.compile(rb"(?i)\ntransfer-encoding:(?![ \t]*chunked\r\n)")
_VERSION = re.compile(rb"[^\r\n]* HTTP/1\.[01]\r?\n")
_HTTP_1_0 = re.compile(rb"[^\r\n]* HTTP/1\.0\r?\n")
_EXPECT = re.compile(rb"(?i)\nexpect:[ \t]*100-continue")
_MOST_ANSWERED = 16
_HOST = re.compile(rb"(?i)(?<=\n)host:")


class Compared(NamedTuple):
    """The reasons for which two outcomes differ. `unexplained` is empty unless there is no reason."""

    reasons: frozenset[str]
    unexplained: str = ""


def compare(both: Both, segments: Sequence[bytes], *, half_close: bool = False) -> Compared:
    """Serve the segments on both connections and compare the outcomes."""
    ours, theirs = both.serve(segments, half_close=half_close)
    if ours.faults:
        return Compared(frozenset(), f"ours: {ours.faults}")
    if _canonical(ours) == _canonical(theirs):
        return Compared(frozenset())
    reference = _Reference(segments)
    wanted = both.theirs(reference.segments, half_close=half_close)
    reasons = set(reference.reasons)
    why = _explain(_canonical(ours), _canonical(wanted), reference, reasons)
    if why:
        return Compared(frozenset(reasons), f"{why}\nours:      {ours}\nuvicorn:   {theirs}\nreference: {wanted}")
    if _canonical(theirs) != _canonical(wanted) and (not reasons or reference.data == b"".join(segments)):
        reasons.add("a request is answered before bytes after it are refused")
    return Compared(frozenset(reasons))


# --- Outcomes without what may differ ----------------------------------------------------------------------------


class _Plain(NamedTuple):
    """An answer as far as it must be the same."""

    status: int
    closes: bool
    said: str
    trailers: str = ""


class _Connection(NamedTuple):
    answers: list[_Plain]
    closed: bool


_REFUSED = "refused"


def _canonical(outcome: Outcome) -> _Connection:
    return _Connection([_plain(answer) for answer in outcome.answers], outcome.closed)


def _plain(answer: Answer) -> _Plain:
    headers = dict(answer.headers)
    closes = headers.pop("connection", "") == "close"
    if closes and b"Invalid HTTP request received." in answer.body and answer.status == 400:
        return _Plain(400, True, _REFUSED)
    if headers.get("content-type") == "application/problem+json":
        return _Plain(answer.status, closes, _REFUSED)
    if "x-method" in headers:
        headers["x-method"] = _method(headers["x-method"])
    if answer.body.startswith(b'{"method"'):
        headers.pop("content-length", None)
        said = json.loads(answer.body)
        said["method"] = _method(said["method"])
        fields = [tuple(pair) for pair in said.pop("headers") if "upgrad" not in pair[0]]
        return _Plain(answer.status, closes, f"{sorted(headers.items())} {said}", str(fields))
    if headers.get("x-method") == "HEAD":
        headers.pop("content-length", None)
    return _Plain(answer.status, closes, f"{sorted(headers.items())} {answer.body!r}")


def _method(name: str) -> str:
    return name if name in _PLAIN else "other"


# --- The bytes for which uvicorn must do what we do -----------------------------------------------------------------


class _Scan:
    """The requests in some bytes, as httptools reads them byte by byte."""

    def __init__(self, data: bytes) -> None:
        self.begins: list[int] = []
        self.heads: list[int] = []
        self.ends: list[int] = []
        self.trouble: Exception | None = None
        self._at = 0
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.methods: list[str] = []
        try:
            for self._at in range(len(data)):
                self._parser.feed_data(data[self._at : self._at + 1])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as trouble:
            self.trouble = trouble

    def on_message_begin(self) -> None:
        self.begins.append(self._at)

    def on_headers_complete(self) -> None:
        self.heads.append(self._at + 1)
        self.methods.append(self._parser.get_method().decode("ascii"))

    def on_message_complete(self) -> None:
        self.ends.append(self._at + 1)

    @property
    def boundary(self) -> int:
        """The place at which the last whole request ends."""
        return self.ends[-1] if self.ends else 0


class _Reference:
    """Bytes that uvicorn answers as we answer `segments`."""

    def __init__(self, segments: Sequence[bytes]) -> None:
        self.data = b"".join(segments)
        self._cuts = {0}
        for segment in segments:
            self._cuts.add(max(self._cuts) + len(segment))
        self.reasons: set[str] = set()
        self.scan = _Scan(self.data)
        while self._mend():
            self.scan = _Scan(self.data)

    @property
    def segments(self) -> list[bytes]:
        """One segment more for each whole request, and for each head with a body that nobody reads: uvicorn answers it
        before it sees the next bytes."""
        unread = [
            head for head, method in zip(self.scan.heads, self.scan.methods, strict=True) if method in NO_BODY_READ
        ]
        cuts = sorted(self._cuts | {*self.scan.ends, *unread, len(self.data)})
        return [self.data[start:end] for start, end in pairwise(cuts)]

    @property
    def ends_in_a_body(self) -> bool:
        """True if the body of the last request is not whole."""
        return len(self.scan.ends) < len(self.scan.heads)

    def head(self, index: int) -> bytes:
        """The head of a request, as far as it is there. Empty: there is none."""
        begins, heads = self.scan.begins, self.scan.heads
        if not 0 <= index < len(begins):
            return b""
        return self.data[begins[index] : heads[index] if index < len(heads) else None]

    def _mend(self) -> bool:
        """Change the first place that uvicorn takes in another way. False: there is none any more."""
        scan = self.scan
        if isinstance(scan.trouble, httptools.HttpParserUpgrade):
            begin, head = scan.begins[-1], scan.heads[-1]
            if scan.methods[-1] == "CONNECT":
                self.reasons.add("CONNECT reaches the application")
                return self._replace(begin, b"CONNECT", _STAND_IN)
            found = _UPGRADE.search(self.data, begin, head)
            self.reasons.add("another protocol is ignored")
            return found is not None and self._replace(found.start(), found.group(), b"Upgradx")
        if isinstance(scan.trouble, httptools.HttpParserInvalidMethodError):
            for at in self._cuts:
                method = _OTHER_METHOD.match(self.data, at)
                if at == scan.boundary and method is not None and self._is_in_one_segment(at, method.end()):
                    self.reasons.add("an unknown method reaches the application")
                    return self._replace(at, method.group(), _STAND_IN)
        return False

    def _is_in_one_segment(self, start: int, end: int) -> bool:
        return not any(start < cut <= end for cut in self._cuts)

    def _replace(self, at: int, old: bytes, new: bytes) -> bool:
        assert self.data[at:].startswith(old), (self.data, at, old)
        more = len(new) - len(old)
        self.data = self.data[:at] + new + self.data[at + len(old) :]
        self._cuts = {cut + more if cut > at else cut for cut in self._cuts}
        return True


# --- Why ours is as it is -----------------------------------------------------------------------------------------


def _explain(ours: _Connection, wanted: _Connection, reference: _Reference, reasons: set[str]) -> str:
    """Add the reasons for which ours is not as it is wanted. Returns what has no reason."""
    wanted = _without_100_of_http_1_0(wanted, reference, reasons)
    same = 0
    for one, other in zip(ours.answers, wanted.answers, strict=False):
        if one._replace(closes=other.closes, trailers=other.trailers) != other:
            break
        if one.trailers != other.trailers:
            if not other.trailers.startswith(one.trailers[:-1]):
                return f"answer {same}: other headers"
            reasons.add("trailers are no headers")
        same += 1
        if one.closes != other.closes:
            break
    rest, missed = ours.answers[same:], wanted.answers[same:]
    stops = same > 0 and ours.answers[same - 1].closes and not wanted.answers[same - 1].closes
    if not rest and not missed and not stops and ours.closed == wanted.closed:
        return ""
    if not rest and not missed and wanted.closed and ours.answers[-1].closes and reference.ends_in_a_body:
        reasons.add("a body is read to its end")
        return ""
    if not ours.closed or len(rest) > 1 or (rest and rest[0].said != _REFUSED):
        return f"answer {same} differs"
    done = sum(answer.status != 100 for answer in ours.answers[:same])
    reason = _reason_to_stop(rest, missed, done, reference, stops=stops)
    if reason is None:
        return f"ours stops after {done} requests"
    reasons.add(reason)
    return ""


def _without_100_of_http_1_0(wanted: _Connection, reference: _Reference, reasons: set[str]) -> _Connection:
    """The answers that are wanted, without those to the expectations of HTTP/1.0."""
    kept: list[_Plain] = []
    for answer in wanted.answers:
        done = sum(earlier.status != 100 for earlier in kept)
        if answer.status == 100 and _HTTP_1_0.match(reference.head(done)):
            reasons.add("HTTP/1.0 gets no 100")
        else:
            kept.append(answer)
    return wanted._replace(answers=kept)


def _reason_to_stop(
    rest: list[_Plain], missed: list[_Plain], done: int, reference: _Reference, *, stops: bool
) -> str | None:
    """The reason for which ours goes no further than `done` requests."""
    last, head = reference.head(done - 1), reference.head(done)
    if stops and last.startswith(_STAND_IN) and "CONNECT reaches the application" in reference.reasons:
        return "CONNECT ends the connection"
    if stops and _EXPECT.search(last):
        return "answered before 100-continue"
    if not rest and [answer.said for answer in missed] == [_REFUSED]:
        return "no refusal after such answers"
    if done > _MOST_ANSWERED and not rest:
        return "too many requests wait"
    status = rest[0].status if rest else 400
    if status == 431 and len(head) > MAX_HEAD_BYTES:
        return "a large head"
    if status == 400 and done < len(reference.scan.heads):
        if not _VERSION.match(head):
            return "another version"
        if _ENCODING.search(head):
            return "another encoding"
        hosts = len(_HOST.findall(head))
        if hosts > 1 or (hosts == 0 and not _HTTP_1_0.match(head)):
            return "Host"
    return None
