"""`indelible serve`: one ledger for agents in any language."""

from __future__ import annotations

from pathlib import Path

import click

from indelible.cli.opening import about_ledger, check_is_ledger, where
from indelible.stores import is_postgres

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="The port.")
@click.option("--allowed-host", "hosts", multiple=True, metavar="NAME", help="Another name clients may use for us.")
@click.option("--root-path", default="", metavar="PATH", help="The path under which a proxy shows us.")
@click.option("--tls-cert", "certificate", type=_FILE, help="A certificate, to speak TLS ourselves.")
@click.option("--tls-key", "certificate_key", type=_FILE, help="Its key.")
@click.option("--behind-tls", "is_behind_tls", is_flag=True, help="A proxy in front of us speaks TLS.")
@click.option(
    "--keys", type=click.Path(file_okay=False, path_type=Path), help="Seal here, with the keys in this folder."
)
@click.option("--tools", type=_FILE, metavar="FILE", help="Run the tools in this TOML file here, for agents.")
@click.option("--encrypt", is_flag=True, help="Record arguments, results and texts encrypted.")
@click.option("--environment", help="What rules see as the environment.  [default: $INDELIBLE_ENVIRONMENT]")
@about_ledger
def serve(
    host: str,
    port: int,
    hosts: tuple[str, ...],
    root_path: str,
    certificate: Path | None,
    certificate_key: Path | None,
    is_behind_tls: bool,
    keys: Path | None,
    encrypt: bool,
    environment: str | None,
    tools: Path | None,
) -> None:
    """Serve the ledger over HTTP, for agents in any language.

    Everybody needs a token: indelible apikeys create NAME --scope agent. On SQLite the server seals the journal, on
    PostgreSQL `indelible worker` does, unless --keys says otherwise. Ends on SIGTERM or Ctrl-C, when what is under way
    is finished.

    \b
    indelible serve --url sqlite:///agent.db
    INDELIBLE_TOKEN=… python agent.py          # Ledger.open("http://127.0.0.1:8787")
    """
    place = where()
    if not is_postgres(place.address):
        check_is_ledger(place.address)
    try:
        from indelible.server import running
    except ImportError as missing:
        raise click.UsageError(f"{missing}; the server needs: pip install 'indelible[server]'") from missing
    scheme = "http" if certificate is None else "https"
    print(f"Serving {place.address} at {scheme}://{host}:{port}; stop with Ctrl-C.", flush=True)
    running.serve(
        place.address,
        host=host,
        port=port,
        hosts=hosts,
        root_path=root_path,
        certificate=certificate,
        certificate_key=certificate_key,
        is_behind_tls=is_behind_tls,
        keys=keys,
        encrypt=encrypt,
        environment=environment,
        tools=tools,
    )
