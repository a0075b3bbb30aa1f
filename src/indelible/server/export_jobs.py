"""Exports that the server makes beside its answers: each is one file in a private folder, for a while.

A file has its name only when it is whole. The folder goes with the server; those of servers that were killed are
cleared away by the next one that makes an export on this machine.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import file_digest
from pathlib import Path
from typing import Literal

from indelible.core.filtering.filters import Query
from indelible.errors import AskedTooOften, IndelibleError
from indelible.journal.exports.exporting import Exported, Form
from indelible.journal.exports.selecting import Disclosure, Selection

State = Literal["waiting", "running", "done", "failed"]
MOST_AT_WORK = 2
"""Is how many exports one server makes at the same time; the others wait for them."""
MOST_KEPT = 20
"""Is how many exports of a tenant there may be, under way or to be fetched."""
KEPT_FOR = timedelta(hours=1)
"""Is how long a finished export can be fetched."""
_PREFIX = "indelible-exports-"
_LONGEST_GOODBYE = 10.0
_SUFFIXES: dict[Form, str] = {"bundle": "zip", "html": "html", "ndjson": "ndjson", "csv": "csv", "parquet": "parquet"}
_log = logging.getLogger("indelible.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """Is what somebody wants exported."""

    form: Form
    selection: Selection
    disclosure: Disclosure
    query: Query


@dataclass(slots=True, kw_only=True)
class Job:
    """Is one export, from its order until it is removed."""

    id: str
    tenant: str
    by: str
    ordered: Ordered
    asked_at: datetime
    state: State = "waiting"
    done: int = 0
    total: int | None = None
    why: str | None = None
    ended_at: datetime | None = None
    exported: Exported | None = None
    size: int | None = None
    sha256: str | None = None
    is_unwanted: bool = False
    erased_since: Callable[[], bool] = field(default=lambda: False, repr=False)
    """Was anything of the tenant erased since the export began to read?"""
    timer: threading.Timer | None = field(default=None, repr=False)

    @property
    def file_name(self) -> str:
        """Is the name of its file."""
        return f"{self.id}.{_SUFFIXES[self.ordered.form]}"

    @property
    def expires_at(self) -> datetime | None:
        """Is when it is removed."""
        return None if self.ended_at is None else self.ended_at + KEPT_FOR


Make = Callable[[Job, Path], Exported]
"""Writes the file of a job."""


class _Unwanted(Exception):
    """Ends an export that nobody wants any more."""


class ExportJobs:
    """Keeps the exports of one server, in threads of its own, whoever waits for them or not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._jobs: dict[str, Job] = {}
        self._threads: set[threading.Thread] = set()
        self._at_work = threading.Semaphore(MOST_AT_WORK)
        self._is_closed = False

    def order(self, tenant: str, by: str, ordered: Ordered, make: Make) -> Job:
        """Begins an export; raises `AskedTooOften` when the tenant has too many already."""
        now = datetime.now(UTC)
        job = Job(id=f"exp_{secrets.token_hex(16)}", tenant=tenant, by=by, ordered=ordered, asked_at=now)
        thread = threading.Thread(target=self._work, args=(job, make), name=job.id, daemon=True)
        with self._lock:
            if self._is_closed or sum(one.tenant == tenant for one in self._jobs.values()) >= MOST_KEPT:
                message = f"there are {MOST_KEPT} exports already; fetch and delete some: DELETE /v1/exports/ID"
                raise AskedTooOften(message, retry_after=60.0)
            if self._folder is None:
                self._folder = _new_folder()
            self._jobs[job.id] = job
            self._threads.add(thread)
        thread.start()
        return job

    def find(self, tenant: str, job_id: str) -> Job | None:
        """Gives a job of this tenant."""
        job = self._jobs.get(job_id)
        return job if job is not None and job.tenant == tenant else None

    def of(self, tenant: str) -> list[Job]:
        """Lists the jobs of a tenant, newest first."""
        with self._lock:
            return [job for job in reversed(self._jobs.values()) if job.tenant == tenant]

    def path_of(self, job: Job) -> Path:
        """Gives where the file of a job lies, when it is whole."""
        assert self._folder is not None, "where there is a job, there is a folder"
        return self._folder / job.file_name

    def remove(self, job: Job) -> None:
        """Takes an order back: what is under way ends with its next page, and its file is gone."""
        with self._lock:
            self._jobs.pop(job.id, None)
            job.is_unwanted = True
        if job.timer is not None:
            job.timer.cancel()
        self.path_of(job).unlink(missing_ok=True)

    def drop(self, tenant: str) -> None:
        """Remove all exports of a tenant, because they may hold what was erased."""
        for job in self.of(tenant):
            self.remove(job)

    def close(self) -> None:
        """Ends what is under way, and removes everything."""
        with self._lock:
            self._is_closed = True
            threads = list(self._threads)
        for job in list(self._jobs.values()):
            self.remove(job)
        for thread in threads:
            thread.join(_LONGEST_GOODBYE)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _work(self, job: Job, make: Make) -> None:
        try:
            with self._at_work:
                self._make(job, make)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _make(self, job: Job, make: Make) -> None:
        path = self.path_of(job)
        try:
            self.keep_on(job)
            job.state = "running"
            job.exported = make(job, path)
            job.size = path.stat().st_size
            with path.open("rb") as file:
                job.sha256 = file_digest(file, "sha256").hexdigest()
            self.keep_on(job)
            self._ended(job, "done", None)
        except _Unwanted:
            path.unlink(missing_ok=True)
        except IndelibleError as problem:
            self._ended(job, "failed", str(problem).replace(str(path), "the file"))
        except Exception:
            _log.exception("the export %s failed", job.id)
            self._ended(job, "failed", "the server could not make it; its log says why")

    def keep_on(self, job: Job) -> None:
        """Ends the work on a job that nobody wants any more."""
        if job.is_unwanted:
            raise _Unwanted

    def _ended(self, job: Job, state: State, why: str | None) -> None:
        job.why, job.ended_at = why, datetime.now(UTC)
        job.timer = threading.Timer(KEPT_FOR.total_seconds(), self.remove, (job,))
        job.timer.daemon = True
        with self._lock:
            if job.is_unwanted:
                self.path_of(job).unlink(missing_ok=True)
                return
            job.timer.start()
        job.state = state  # the last thing: whoever sees it finds everything else


def _new_folder() -> Path:
    """Makes a folder that only this user can enter, and clears away those of servers that are gone."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        found = re.fullmatch(rf"{_PREFIX}([0-9]+)-.*", left.name)
        if found is not None and not left.is_symlink() and not _is_alive(int(found[1])):
            shutil.rmtree(left, ignore_errors=True)  # what is another user's stays
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
