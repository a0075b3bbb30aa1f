"""`indelible serve`: one ledger for agents in any language."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from indelible.cli.ending import ending_well
from indelible.cli.opening import about_ledger, check_is_here, open_existing, where, without_password
from indelible.cli.options import listen_option
from indelible.cli.serve.oidc import about_provider, provider_of
from indelible.cli.serve.operation import about_operation, operating

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@listen_option(8787)
@click.option("--allowed-host", "hosts", multiple=True, metavar="NAME", help="Another name clients may use for us.")
@click.option("--root-path", default="", metavar="PATH", help="The path under which a proxy shows us.")
@click.option("--tls-cert", "certificate", type=_FILE, help="A certificate, to speak TLS ourselves.")
@click.option("--tls-key", "certificate_key", type=_FILE, help="Its key.")
@click.option("--behind-tls", "is_behind_tls", is_flag=True, help="A proxy in front of us speaks TLS.")
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Believe X-Forwarded-For and X-Forwarded-Proto from this address or network. Repeatable.",
)
@click.option(
    "--keys", type=click.Path(file_okay=False, path_type=Path), help="Seal here, with the keys in this folder."
)
@click.option("--tools", type=_FILE, metavar="FILE", help="Run the tools in this TOML file here, for agents.")
@click.option("--encrypt", is_flag=True, help="Record arguments, results and texts encrypted.")
@click.option(
    "--rate",
    type=click.IntRange(0),
    metavar="N",
    default=1000,
    show_default=True,
    help="Requests a second of each credential; 0: any.",
)
@click.option(
    "--in-flight",
    type=click.IntRange(0),
    metavar="N",
    default=256,
    show_default=True,
    help="Of each credential at once; 0: any.",
)
@click.option("--environment", help="What rules see as the environment.  [default: $INDELIBLE_ENVIRONMENT]")
@click.option("--demo", "is_demo", is_flag=True, help="Serve a made-up ledger, with tokens to try, and throw it away.")
@about_provider
@about_operation
@about_ledger
def serve(
    host: str,
    port: int,
    hosts: tuple[str, ...],
    root_path: str,
    certificate: Path | None,
    certificate_key: Path | None,
    is_behind_tls: bool,
    trusted_proxies: tuple[str, ...],
    keys: Path | None,
    encrypt: bool,
    environment: str | None,
    tools: Path | None,
    rate: int,
    in_flight: int,
    is_demo: bool,
    log_format: Any,
    log_level: str,
    oidc_issuer: str | None,
    oidc_client_id: str | None,
    oidc_allow: tuple[str, ...],
    oidc_max_age: str,
    **operation: Any,
) -> None:
    """Serve the ledger over HTTP, for agents in any language.

    Everybody needs a token: indelible apikeys create NAME --scope agent. The server seals the journal, tells people of
    approvals and clears up; of several servers in front of one ledger, one does. Ends on SIGTERM or Ctrl-C, when what
    is under way is finished.

    \b
    indelible serve --demo                     # look around first
    indelible serve --url sqlite:///agent.db
    INDELIBLE_TOKEN=… python agent.py          # Ledger.open("http://127.0.0.1:8787")
    """
    try:
        from indelible.server import running
        from indelible.server.requests.limits import Limits
        from indelible.server.requests.logs import log_written
    except ImportError as missing:
        raise click.UsageError(f"{missing}; the server needs: pip install 'indelible[server]'") from missing
    provider = provider_of(oidc_issuer, oidc_client_id, oidc_allow, oidc_max_age)
    ran = operating(**operation) | {"provider": provider, "tenant": where().tenant}
    running.check_is_private(host, has_tls=certificate is not None or is_behind_tls)
    with ExitStack() as stack:
        stack.enter_context(ending_well())
        stack.enter_context(log_written(log_format, log_level))
        listening = stack.enter_context(running.bound(host, port))
        base = f"{'http' if certificate is None else 'https'}://{host}:{listening.getsockname()[1]}"
        if is_demo:
            from indelible.cli.serve.demo import demo_ledger

            address, keys, ran["demo"] = stack.enter_context(demo_ledger(base))
        else:
            address = where().address
            check_is_here(where())
            open_existing(where()).close()  # what is in the way is said before anything is promised
            print(f"Serving {without_password(address)} at {base}; stop with Ctrl-C.", flush=True)
        running.serve(
            address,
            host=host,
            port=port,
            hosts=hosts,
            root_path=root_path,
            certificate=certificate,
            certificate_key=certificate_key,
            is_behind_tls=is_behind_tls,
            trusted_proxies=trusted_proxies,
            keys=keys,
            encrypt=encrypt,
            environment=environment,
            tools=tools,
            limits=Limits(rate=rate, in_flight=in_flight),
            listening=listening,
            **ran,
        )
