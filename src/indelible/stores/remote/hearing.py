"""What came back from a server, or from whatever stands between us and it, and what may be concluded from it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

import httpx2

from indelible.core.remote.carried import error_from
from indelible.core.remote.problem_types import PROBLEMS
from indelible.errors import IndelibleError, Misconfigured, NotAuthenticated, OutcomeUnknown, StoreUnavailable, TooLarge

# The answer never came, but the question cannot have arrived either.
_NEVER_ARRIVED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
# These are said before a request is carried out, whoever says them.
_NOT_TAKEN = (408, 425, 429)
# And these by proxies that have passed it on, perhaps.
_BUSY = (502, 503, 504, *range(520, 531))
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Trouble:
    """Is why there is no answer yet; another try may help, after `pause` seconds at least."""

    error: IndelibleError
    may_be_done: bool
    pause: float = 0.0


def trouble_of(server: str, problem: httpx2.TransportError | httpx2.DecodingError) -> Trouble:
    """Says what is wrong between us and a server."""
    insecure = _in_tls(problem)
    if isinstance(insecure, ssl.SSLCertVerificationError):
        said = f"{server} shows a certificate that is not trusted here: {insecure.verify_message}. "
        return Trouble(Misconfigured(f"{said}Name the file of the CA that signed it: ca= or $INDELIBLE_CA"), False)
    if insecure is not None and isinstance(problem, httpx2.ConnectError):
        said = f"{server} does not speak TLS as we do: {insecure.reason or insecure}. "
        return Trouble(Misconfigured(f"{said}Look whether the port is the right one"), False)
    if isinstance(problem, httpx2.ProxyError):
        return Trouble(StoreUnavailable(f"{server} cannot be reached, for the proxy says: {problem}"), False)
    if isinstance(problem, _NEVER_ARRIVED):
        said = f"{server} cannot be reached: {str(problem) or type(problem).__name__}"
        return Trouble(
            StoreUnavailable(f"{said}. Look at the address, and whether `indelible serve` runs there"), False
        )
    return Trouble(StoreUnavailable(f"{server} did not answer: {type(problem).__name__} {problem}".strip()), True)


def _in_tls(problem: BaseException) -> ssl.SSLError | None:
    cause: BaseException | None = problem
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    return cause


def answer_of(server: str, response: httpx2.Response) -> dict[str, Any] | Trouble:
    """Gives the JSON that a server answered with, or the trouble with it; raises what is final."""
    status, told = response.status_code, _json_of(response)
    if status == 200:
        return told if isinstance(told, dict) else Trouble(_stranger(server, response), True)
    if _is_ours(told):
        return _said(server, error_from(told, status), status, _pause(response))
    if status in _NOT_TAKEN:
        return Trouble(StoreUnavailable(f"{server} is busy: {status}"), False, _pause(response))
    if status in _BUSY:
        return Trouble(StoreUnavailable(f"what stands before {server} answered with status {status}"), True)
    if status == 401:
        raise NotAuthenticated(f"{server} does not know this credential; get another one")
    if response.is_redirect:
        raise Misconfigured(f"{server} sends us on to {response.headers.get('location', '?')[:_MOST_SHOWN]}; say that")
    if status == 421:
        raise Misconfigured(f"{server} is not served under this name; start it with --allowed-host")
    if status == 413:
        size = int(response.request.headers.get("content-length", "0"))
        raise TooLarge(f"what stands before {server} lets nothing as large through: {size} bytes", limit=0, size=size)
    if status < 500:
        raise _stranger(server, response)
    return Trouble(StoreUnavailable(f"{server} failed with status {status}"), True)


def _said(server: str, error: IndelibleError, status: int, pause: float) -> Trouble:
    """Gives the trouble that a server of ours told of; raises what another try does not change."""
    if isinstance(error, OutcomeUnknown) or (status >= 500 and type(error) is IndelibleError):
        return Trouble(error, True)
    if isinstance(error, StoreUnavailable):
        return Trouble(error, False, pause)
    raise error


def _is_ours(told: Any) -> bool:
    return isinstance(told, dict) and str(told.get("type", "")).startswith(PROBLEMS)


def _json_of(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _stranger(server: str, response: httpx2.Response) -> Misconfigured:
    what = response.headers.get("content-type", "no content type")[:_MOST_SHOWN]
    return Misconfigured(
        f"no Indelible server answers at {server}, but something with status {response.status_code} and {what}; look "
        "at the address, and at what stands before the server"
    )


def _pause(response: httpx2.Response) -> float:
    """Gives how long a server asks us to wait."""
    said = response.headers.get("retry-after", "")
    return float(said) if said.isascii() and said.isdigit() and len(said) < 7 else 0.0
