"""Runs the server: one process, one store, until it is told to stop."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from prometheus_client import disable_created_metrics

from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.engine.authenticating import authenticate_rows
from indelible.engine.comparing import compare_before_writing
from indelible.errors import Misconfigured
from indelible.journal.keys.files import resolved_keys
from indelible.journal.keys.places import expected_in
from indelible.journal.keys.writers import key_maker
from indelible.listening import is_loopback
from indelible.notify.channels import Channel
from indelible.server.app import create_app
from indelible.server.gateway import Gateway
from indelible.server.gateway_tools import load_tools
from indelible.server.ledgers import Ledgers
from indelible.server.requests.hardening import LOOPBACK, Hardened
from indelible.server.requests.heads import StrictProtocol
from indelible.server.requests.limits import Limits, counting
from indelible.server.requests.lingering import allow_connections
from indelible.server.requests.observing import Observed, noting
from indelible.server.requests.stopping import StoppingServer
from indelible.server.routes.operation import Demo
from indelible.server.signin.identity import Identity
from indelible.server.signin.oidc import Provider
from indelible.server.signin.providers import put_in_force
from indelible.server.webhook_file import load_webhooks
from indelible.server.worker import Rounds, Worker
from indelible.stores import is_postgres, open_store

GRACE_SECONDS = 10
_log = logging.getLogger("indelible.server")


def serve(
    url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8787,
    hosts: Sequence[str] = (),
    root_path: str = "",
    certificate: Path | None = None,
    certificate_key: Path | None = None,
    is_behind_tls: bool = False,
    trusted_proxies: Sequence[str] = (),
    keys: Path | None = None,
    encrypt: bool = False,
    environment: str | None = None,
    tools: Path | None = None,
    limits: Limits | None = None,
    channels: Sequence[Channel] = (),
    rounds: Rounds | None = None,
    is_metrics_open: bool = False,
    drain: float = 0.0,
    provider: Provider | None = None,
    tenant: str = DEFAULT_TENANT,
    demo: Demo | None = None,
    listening: socket.socket | None = None,
) -> None:
    """Serves the ledger at an address until SIGTERM or Ctrl-C; what is under way is finished first.

    Without `rounds`, somebody else has to seal and to send. `drain` is for how many seconds it still answers after it
    has said that it will stop. `trusted_proxies` are addresses and networks whose `X-Forwarded-For` is believed. The
    rules of `provider` are put in force for `tenant`; without one, those that were in force there end.
    """
    check_are_addresses(trusted_proxies)
    check_is_private(host, has_tls=certificate is not None or is_behind_tls)
    if is_metrics_open and (is_behind_tls or not is_loopback(host)):
        raise Misconfigured("--metrics-open is for a server that only this machine reaches; use an auditor's token")
    gateway = None if tools is None else Gateway(load_tools(tools))
    webhooks = None if tools is None else load_webhooks(tools)
    listening = listening or bound(host, port)
    # When a count began is in no plot, and takes a line for each.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    has_named_keys = keys is not None
    keys = resolved_keys(keys)  # now: the current folder may change
    store = open_store(url, expect=expected_in(keys), begin=key_maker(keys))
    authenticate_rows(store, keys)
    compare_before_writing(store, keys)
    ledgers = Ledgers(
        store,
        gateway=gateway,
        webhooks=webhooks,
        keys=keys,
        encrypt=encrypt,
        environment=environment,
        seal=has_named_keys or not is_postgres(store.address),
    )
    if rounds is not None:
        ledgers.worker = Worker(ledgers, rounds, channels=channels, keys=keys, encrypt=encrypt)
    ledgers.compare()
    if put_in_force(store, tenant, provider):
        _log.warning("the rules by which a provider lets people in were changed for the tenant %s", tenant)
    allow_connections()
    inner = create_app(ledgers, noting(counting(Identity(store))))
    inner.state.is_metrics_open = is_metrics_open
    inner.state.provider = provider
    inner.state.demo = demo
    hardened = Hardened(inner, hosts=(*LOOPBACK, host, *hosts), limits=limits or Limits())
    app = Observed(hardened, ledgers.metrics)
    config = uvicorn.Config(
        app,
        root_path=root_path,
        ssl_certfile=certificate,
        ssl_keyfile=certificate_key,
        log_config=None,  # the log is the program's own: see `log_written`
        access_log=False,
        server_header=False,
        ws="none",
        http=StrictProtocol,
        # Whose requests count as whose is by the address of the connection, unless it is that of a known proxy.
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = StoppingServer(config, ledgers.stopping)
    server.drain_seconds = drain
    if ledgers.worker is not None:
        ledgers.worker.start()
    server.run(sockets=[listening])


def check_is_private(host: str, *, has_tls: bool) -> None:
    """Refuses to listen where others can read tokens on their way."""
    if not is_loopback(host) and not has_tls:
        raise Misconfigured(
            f"--host {host}: others could read the tokens on their way here. Give --tls-cert and --tls-key, or say "
            "--behind-tls if a proxy in front of this server speaks TLS"
        )


def check_are_addresses(proxies: Sequence[str]) -> None:
    """Refuse what names no proxy: with `*`, every client could name the address that it is counted by."""
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            raise Misconfigured(
                f"--trusted-proxy {proxy}: give the proxy's own address or network, as 127.0.0.1 or 10.0.0.0/8"
            ) from None


def bound(host: str, port: int) -> socket.socket:
    """Takes the port before anything is opened, and says when somebody has it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as problem:
        raise Misconfigured(
            f"{host}:{port} cannot be listened on: {problem.strerror}; choose another --port"
        ) from problem
    # asyncio would do so only if the socket had been made with its protocol; connections inherit it. Without it, each
    # answer waits 40 ms for the other side to acknowledge its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
