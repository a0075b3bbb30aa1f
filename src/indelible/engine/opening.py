"""Opens a ledger: finds its store, and puts together what stands between the store and a caller."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, get_args

from indelible.core.effects.calls import DEFAULT_TENANT, Options, OptionWords, check_name, check_run_id
from indelible.core.effects.effect import Actor
from indelible.core.journal.journal import Signer
from indelible.core.ports import Clock, Store
from indelible.engine.authenticating import authenticate_rows, note_rights
from indelible.engine.comparing import compare_before_writing
from indelible.engine.desk import Desk
from indelible.engine.engine import Engine
from indelible.engine.judging import Judging, policy_from
from indelible.engine.notary import Notary, OnUnsealed, signer_maker
from indelible.engine.preparing import AGENT, MEBIBYTE
from indelible.errors import BadCall
from indelible.journal.keys.files import has_data_keys, resolved_keys
from indelible.journal.keys.places import expected_in
from indelible.journal.keys.redaction_key import RedactionKey
from indelible.journal.keys.writers import key_maker
from indelible.stores import Reach, is_postgres, is_remote, open_store
from indelible.stores import migrate as migrate_store

if TYPE_CHECKING:
    from indelible.core.policy.policy import Policy
    from indelible.journal.encrypting_store import EncryptingStore
    from indelible.journal.witnesses.asking import Witness
    from indelible.notify.channels import Channel
    from indelible.notify.hooks import Hook
    from indelible.notify.outbox import Outbox

Self = TypeVar("Self", bound="OpenedDesk")


class OpenedDesk(Desk):
    """Is a desk that finds its store by an address; both ledgers are one, with a driver behind it."""

    @classmethod
    def open(
        cls: type[Self],
        url: str | None = None,
        *,
        token: str | None = None,
        reach: Reach | None = None,
        store: Store | None = None,
        tenant: str | None = None,
        run: str | None = None,
        actor: Actor | str = AGENT,
        clock: Clock | None = None,
        wakeups: bool = True,
        max_args_bytes: int | None = MEBIBYTE,
        max_result_bytes: int | None = 16 * MEBIBYTE,
        seal: bool | None = None,
        keys: str | Path | None = None,
        signer: Signer | None = None,
        witnesses: Sequence[Witness] = (),
        sign_events: bool = False,
        on_unsealed: OnUnsealed = "continue",
        encrypt: bool = False,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
        principal: str | None = None,
        environment: str | None = None,
        channels: Sequence[Channel] = (),
        on_approval_required: Hook | None = None,
        create: bool = True,
        **options: Unpack[OptionWords],
    ) -> Self:
        """Opens the ledger at an address: `sqlite:///file.db`, `:memory:`, `postgresql://…` or a server's `https://…`.

        Without one, $INDELIBLE_URL names it, or else it is `.indelible/ledger.db` in the current folder. Options given
        here hold for every call: a tool or a call may demand more, never less.

        A server wants a `token` ($INDELIBLE_TOKEN), which says whose tenant it is, and judges and seals by itself;
        `reach` says how it is reached, and `indelible.connect` is the short way. A `store` that is open already is used
        as it is, and stays open when this ledger is closed.

        `run` ($INDELIBLE_RUN) names the run of calls that name none and are inside none; it fits a program that works
        on one order, one ticket, one job.

        `seal` says whether this process seals the journal: by default a SQLite ledger does, with a key that is made on
        first use in the folder `keys` ($INDELIBLE_KEYS, else ~/.indelible/keys), and a PostgreSQL one leaves it to
        `indelible worker`. `sign_events` lets each event carry a signature of this process. When the journal cannot be
        sealed, calls that await it `continue` with an alarm in the log, or are refused. With `encrypt`, arguments,
        results and texts are recorded encrypted, with a key for each person or run that `erase` destroys.

        `policy` judges every call, besides the one that `apply_policy` keeps in the ledger: the stricter verdict
        holds. `principal` is the person the agent acts for, who cannot approve what it asks. `environment`
        ($INDELIBLE_ENVIRONMENT) is what rules may look at. Approvals are told to `channels`, and to the function
        `on_approval_required`.

        With `create=False`, a SQLite ledger that is not there raises `Misconfigured`, and no file is made. Use it where
        an empty ledger, without its policy, would let everything run.
        """
        own = Options(**options)
        agent = Actor(actor, "agent") if isinstance(actor, str) else actor
        check_name("tenant", DEFAULT_TENANT if tenant is None else tenant)
        _check_on_unsealed(on_unsealed)
        run = os.environ.get("INDELIBLE_RUN") or None if run is None else run
        if run is not None:
            check_run_id(run)
        if principal is not None:
            check_name("principal", principal)
        # What is wrong with these is told before anything is opened.
        own_policy = None if policy is None else policy_from(policy)
        all_channels = _channels(channels, on_approval_required)
        with ExitStack() as undone:  # what is open when a later step fails is closed again
            is_own = store is None
            has_named_keys = keys is not None
            keys = resolved_keys(keys)  # now: the current folder may change
            if store is None:
                store = open_store(
                    url,
                    clock=clock,
                    wakeups=wakeups,
                    token=token,
                    reach=reach,
                    expect=expected_in(keys),
                    begin=key_maker(keys),
                    create=create,
                )
                undone.callback(store.close)
            tenant = _tenant_of(store, tenant)
            is_sealed_elsewhere = is_postgres(store.address) or is_remote(store.address)
            if seal is None:
                seal = not is_remote(store.address) and (
                    signer is not None or has_named_keys or not is_sealed_elsewhere
                )
            notary = Notary(
                store,
                tenant,
                make_signer=signer_maker(store, tenant, keys, signer),
                seal=seal,
                witnesses=witnesses,
                sign_events=sign_events,
                on_unsealed=on_unsealed,
            )
            undone.callback(notary.close)
            if not is_remote(store.address):
                authenticate_rows(store, keys, tenant)
                note_rights(store, tenant)
                compare_before_writing(store, keys, signer)
                _load_what_calls_need(store, tenant)
            redaction_key = RedactionKey(store, keys)
            view: EncryptingStore | None = None
            if encrypt and is_remote(store.address):
                raise BadCall("a ledger behind a server is encrypted by the server: indelible serve --encrypt")
            if encrypt or (not is_remote(store.address) and has_data_keys(store.ledger_name, keys)):
                from indelible.journal.encrypting_store import encrypting_view  # only whoever encrypts loads it

                view = encrypting_view(store, keys, redaction_key, is_encrypting=encrypt)
            judging = Judging(
                store,
                tenant,
                own_policy,
                os.environ.get("INDELIBLE_ENVIRONMENT", "") if environment is None else environment,
            )
            engine = Engine(store, notary, view, judging, owns_store=is_own)
            desk = cls(
                engine,
                tenant=tenant,
                actor=agent,
                max_args_bytes=max_args_bytes,
                max_result_bytes=max_result_bytes,
                options=own,
                redaction_key=redaction_key,
                data_keys=None if view is None else view.keys,
                principal=principal,
                outbox=_outbox(engine, tenant, all_channels),
                run=run,
            )
            undone.pop_all()
            return desk


def migrate(url: str | None = None, *, writer_keys: bool = True, keys: str | Path | None = None) -> list[str]:
    """Bring the schema at an address up to date; a ledger that is not there yet is begun.

    Args:
        url: The address. Default: $INDELIBLE_URL, else `.indelible/ledger.db` in the current folder.
        writer_keys: Whether a new ledger gets writer keys, so that its rows carry macs; a process without them is
            refused. Default: True, unless $INDELIBLE_WRITER_KEYS is `none`.
        keys: The folder of all keys, in which they are made. Default: $INDELIBLE_KEYS, else ~/.indelible/keys.

    Returns:
        The names of the migrations that were applied.

    Raises:
        Misconfigured: Another ledger belongs into the file; the folder of keys knows it.
        KeyUnusable: The writer keys of a new ledger cannot be kept, so none was begun.
    """
    folder = resolved_keys(keys)
    return migrate_store(url, expected_in(folder), key_maker(folder) if writer_keys else None)


def _load_what_calls_need(store: Store, tenant: str) -> None:
    """Import what calls may need while the ledger is opened, and not in whichever thread calls first.

    A process that forks while another thread imports a module leaves its child that module locked for ever.
    """
    import cryptography.exceptions
    import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401

    import indelible.core.privacy.encryption

    if store.macs is None or store.macs(tenant).newest.versions("policy"):
        import indelible.core.policy.merging
        import indelible.core.policy.policy  # noqa: F401


def _channels(channels: Sequence[Channel], hook: Hook | None) -> Sequence[Channel]:
    """Gives all channels, the program's own function among them; each has a name of its own."""
    if not channels and hook is None:
        return ()
    from indelible.notify.channels import Channels
    from indelible.notify.hooks import HookChannel

    own = () if hook is None else (HookChannel(hook),)
    return Channels((*channels, *own), link=getattr(channels, "link", None))


def _outbox(engine: Engine, tenant: str, channels: Sequence[Channel]) -> Outbox | None:
    """Starts what sends messages about approvals, where there is anywhere to send them."""
    if not channels:
        return None
    from indelible.notify.outbox import Outbox

    outbox = Outbox(engine, tenant, channels)
    outbox.start()
    return outbox


def _tenant_of(store: Store, asked: str | None) -> str:
    """Gives the tenant to work for: the one asked for, unless a credential says whose it is."""
    given: str | None = getattr(store, "tenant", None)
    if given is None:
        return asked or DEFAULT_TENANT
    if asked not in (None, given):
        raise BadCall(f"the credential for {store.address} is for the tenant {given!r}, not {asked!r}")
    return given


def _check_on_unsealed(choice: str) -> None:
    if choice not in get_args(OnUnsealed):
        raise BadCall(f"on_unsealed={choice!r}: choose one of {', '.join(get_args(OnUnsealed))}")
