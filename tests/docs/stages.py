"""What is there when a page begins: the ledger, the questions, the servers and the files that the page speaks of."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from indelible import Ledger, Refused, migrate
from tests.docs.stage import Stage, call, declined, done, in_doubt, question
from tests.journal.exported import key_of
from tests.journal.watched import LOG, Log
from tests.journal.watched import running as witness_running
from tests.lending import lent_folder
from tests.migrating.test_from_agent_ledger import CALLS, MADE_THERE, insert
from tests.migrating.test_from_provedex import SIGNER, THEIRS
from tests.migrating.test_from_zehrava import Gate
from tests.notify.receivers import answering, receiving
from tests.notify.recording import ask
from tests.notify.slack_api import SIGNING_SECRET, TOKEN, slack_api
from tests.notify.test_commands import asking
from tests.postgres import fresh_database
from tests.server.places import Place


def empty(stage: Stage) -> None:
    """Has a ledger with nothing in it."""
    stage.open().close()


def nothing(stage: Stage) -> None:
    """Has nothing, not even a ledger."""


def some_work(stage: Stage) -> None:
    """Has a run in which something was done."""
    with stage.open() as ledger:
        for number in range(3):
            done(ledger, number)
        ledger.seal()


def readme(stage: Stage) -> None:
    with stage.open() as ledger:
        in_doubt(ledger)
        question(ledger, 1)
        question(ledger, 2)


def doubtful(stage: Stage) -> None:
    """Has an effect in doubt, another one for each line that settles many, and a program with a probe."""
    ledger = stage.closing.enter_context(stage.open())
    in_doubt(ledger)
    stage.anew = _leaving_doubt(stage, ledger)
    stage.codes = {"indelible effects reconcile --app shop.tools:ledger --dry-run": 1}


# A function: commands of a page run in one process, and each closes the ledger that it was given.
_SHOP = """
from indelible import Ledger, Succeeded


def ledger():
    opened = Ledger.open()
    probe = lambda effect: Succeeded({"id": "ch_1"})
    opened.tool("stripe.charge", side_effect="payment", reconcile=probe)(lambda amount: None)
    return opened
"""


def _leaving_doubt(stage: Stage, ledger: Ledger) -> Callable[[str], str]:
    """Gives what leaves an effect in doubt before each command about many, and writes the files that they name."""
    (stage.folder / "shop").mkdir()
    (stage.folder / "shop" / "tools.py").write_text(_SHOP, encoding="utf-8")
    numbers = iter(range(1000, 2000))

    def anew(command: str) -> str:
        if any(word in command for word in ("--where", "--file", "reconcile", "effects list")):
            effect_id = in_doubt(ledger, next(numbers))
            row = f'{effect_id},succeeded,"{{""id"": ""ch_1""}}",,ch_1 in the report'
            (stage.folder / "settled.csv").write_text(f"id,as,value,error,evidence\n{row}\n", encoding="utf-8")
        return command

    return anew


def command_line(stage: Stage) -> None:
    """Has an effect in doubt, or a question, for each line that needs one."""
    ledger = stage.closing.enter_context(stage.open())
    asked = iter(range(100))
    leaving_doubt = _leaving_doubt(stage, ledger)

    def anew(command: str) -> str:
        if "--where" in command or "--file" in command or "reconcile" in command:
            return leaving_doubt(command)
        if "eff_" in command:
            return command.replace("eff_01a1…", in_doubt(ledger, next(asked)))
        approval = question(ledger, next(asked))
        if "revoke" in command:
            ledger.approve(approval, digest=approval.digest, by="ana")
        return command.replace("apr_01a1…", approval.id).replace("5f3c9a2b7d10e4c6", approval.digest[:16])

    stage.anew = anew
    (stage.folder / "args.json").write_text('{"charge": "ch_1", "amount": 50}', encoding="utf-8")


def auditor(stage: Stage) -> None:
    some_work(stage)
    stage.instead = {"2030-01-01": "2020-01-01", "2030-02-01": "2100-01-01"}
    stage.says = {"--withhold": "6 withheld", "html": "order-123.html: 6 events"}


def deploy(stage: Stage) -> None:
    empty(stage)
    (stage.folder / "deploy").mkdir()
    stage.instead = {"https://ledger.example": served(stage).served.url}


def served(stage: Stage) -> Place:
    """Serves a ledger of its own."""
    place = Place(f"sqlite:///{stage.folder}/served.db", keys=stage.folder / "served-keys")
    stage.closing.callback(place.close)
    stage.terminal.env |= {"INDELIBLE_TOKEN": place.tokens["auditor"], "TOKEN": place.tokens["auditor"]}
    stage.terminal.env |= {"LEDGER": place.served.url}
    return place


def export(stage: Stage) -> None:
    some_work(stage)
    stage.instead = {"2030-03-01": "2020-03-01", "2030-04-01": "2100-04-01"}


def filters(stage: Stage) -> None:
    place = served(stage)
    for ledger in (stage.open(), Ledger.open(place.served.url, token=place.tokens["agent"])):
        with ledger, suppress(Refused):
            ledger.run(call("stripe.refund", amount=2000), declined)
    stage.says = {"indelible effects list": "stripe.refund", "curl": "card declined"}
    (stage.folder / ".curlrc").write_text('fail\nnoproxy = "*"\n', encoding="utf-8")


def forgetting(stage: Stage) -> None:
    with stage.open() as ledger:
        done(ledger, subject="args.customer")
        ledger.run(call("mail", "order-125", to="customer-7"), lambda effect: None, subject="args.to")
        ledger.run(call("mail", "order-126", to="customer-8"), lambda effect: None)
    stage.instead = {"90d": datetime.now(UTC).isoformat()}


def slack(stage: Stage) -> None:
    empty(stage)
    api = stage.closing.enter_context(slack_api()).api
    stage.terminal.env |= {"SLACK_BOT_TOKEN": TOKEN, "SLACK_SIGNING_SECRET": SIGNING_SECRET}
    stage.save("channels.yaml", "kind: slack", f"kind: slack\n    api: {api}")


def notifications(stage: Stage) -> None:
    """Has two messages that the receiver did not want."""
    empty(stage)
    receiver = stage.closing.enter_context(receiving())
    receiver.behave = answering(410, 410, 200)
    secret = "whsec_" + "MTIz" * 10
    stage.terminal.env |= {"SLACK_BOT_TOKEN": TOKEN, "SLACK_SIGNING_SECRET": SIGNING_SECRET}
    stage.terminal.env |= {"NEW_SECRET": secret, "OLD_SECRET": secret}
    (stage.folder / "smtp.password").write_text("secret", encoding="utf-8")
    (stage.folder / "smtp.password").chmod(0o600)
    near = f"{receiver.url}/\n    http: true\n    ports: [{receiver.port}]\n    allow: [127.0.0.1/32]"
    stage.save("channels.yaml", "https://hooks.example.com/approvals", near)
    with asking(stage.url, "ops", keys=stage.terminal.env["INDELIBLE_KEYS"]) as ledger:
        ask(ledger, 1)
        ask(ledger, 2)
    code, said = stage.terminal.run("indelible worker --once --channels channels.yaml")
    assert (code, len(receiver.posts)) == (0, 2), said


def journal(stage: Stage) -> None:
    """Has a backup, which is put back when the page speaks of one."""
    with stage.open() as ledger:
        done(ledger)
        ledger.seal()
    kept = stage.folder / "backup.db"
    database = stage.folder / ".indelible" / "ledger.db"
    shutil.copy(database, kept)
    with stage.open() as ledger:
        for number in range(2, 6):
            done(ledger, number)
        ledger.seal()

    def anew(command: str) -> str:
        if command == "indelible journal seal":
            shutil.copy(kept, database)
            keys = lent_folder(stage.folder / ".indelible" / "keys", stage.folder / "writers")
            with Ledger.open(stage.url, keys=keys, seal=False) as ledger:
                done(ledger, 6)
        return command

    stage.anew = anew
    stage.codes = {"indelible journal seal": 1}


def policy(stage: Stage) -> None:
    with stage.open() as ledger:
        for amount in (20, 2000):
            ledger.run(call("stripe.refund", charge="ch_1", amount=amount), lambda effect: "re_1")
    stage.save("policy.yaml")
    stage.says = {"policy explain": "verdict       ask", "policy test": "1 decision of 2 recorded calls"}


def backup(stage: Stage) -> None:
    """Has a run in which something was done, and goes on with it before the copy is put back."""
    some_work(stage)

    def anew(command: str) -> str:
        if command.startswith("rm -f"):
            with stage.open() as ledger:
                done(ledger, 4)
                ledger.seal()
        return command

    stage.anew = anew
    stage.codes = {"indelible doctor": 1}


def postgres(stage: Stage) -> None:
    """Has two empty databases, and a ledger in a file that is to move to the second."""
    url = stage.postgres()
    second = stage.closing.enter_context(fresh_database(url))
    with Ledger.open(f"sqlite:///{stage.folder}/agent.db", keys=stage.terminal.env["INDELIBLE_KEYS"]) as ledger:
        done(ledger)
    stage.instead = {
        "migrate to postgresql://ledger@db.example/agents": f"migrate to {shlex.quote(second)}",
        "postgresql://ledger@db.example/agents": shlex.quote(url),
        "postgresql://ledger@db-a,db-b,db-c/agents?target_session_attrs=read-write": behind_two_that_are_away(url),
    }
    stage.says = {"doctor": "single"}


def shards(stage: Stage) -> None:
    """Has two shards with a tenant each, of which one is to move to the other."""
    first = stage.postgres()
    second = stage.closing.enter_context(fresh_database(first))
    for url, tenant in ((first, "acme"), (second, "globex")):
        migrate(url, keys=stage.terminal.env["INDELIBLE_KEYS"])
        with Ledger.open(url, tenant=tenant, keys=stage.terminal.env["INDELIBLE_KEYS"]) as ledger:
            done(ledger)
            ledger.seal()
    pinned = stage.terminal.run(f"indelible keys export-public --tenant acme --url {shlex.quote(first)}")[1]
    stage.instead = {
        "postgresql://ledger@db-1.example/agents": shlex.quote(first),
        "postgresql://ledger@db-2.example/agents": shlex.quote(second),
        "ledger-4c1e66344d5f/acme+b4eded93+AcpiWaN2…": pinned.strip(),
    }
    stage.says = {"--tenant acme --key": "VERIFIED"}


def behind_two_that_are_away(url: str) -> str:
    """Names a server as the last of three."""
    told = conninfo_to_dict(url)
    who = ":".join(quote(str(told[part])) for part in ("user", "password") if part in told)
    hosts, ports = f"/a,/b,{told['host']}", f"1,1,{told['port']}"
    return f"postgresql://{who}@/{told['dbname']}?host={hosts}&port={ports}&target_session_attrs=read-write"


def from_agent_ledger(stage: Stage) -> None:
    empty(stage)
    url = stage.postgres()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(MADE_THERE)
        for one, status, result, error in CALLS:
            insert(connection, one, status, result, error)
    stage.instead = {"postgresql://agents@db.example/agents": shlex.quote(url)}
    stage.says = {"migrate from": "requires_approval"}


def from_provedex(stage: Stage) -> None:
    empty(stage)
    (stage.folder / ".provedex").mkdir()
    shutil.copy(THEIRS, stage.folder / ".provedex" / "ledger.ndjson")
    stage.instead = {"79d9e25a…": SIGNER}


def from_zehrava(stage: Stage) -> None:
    empty(stage)
    gate = Gate(stage.folder / "gate.db")
    gate.run("run_1")
    gate.checkpoint("run_1")
    gate.database.close()


def verified(stage: Stage) -> None:
    some_work(stage)
    for line in ("indelible export bundle --out bundle.zip", "indelible keys export-public"):
        stage.told.append(stage.terminal.run(line)[1])
    place, keys = served(stage), stage.folder / "served-keys"
    with Ledger.open(f"sqlite:///{stage.folder}/served.db", tenant="acme", keys=keys) as ledger:
        ledger.run(call("stripe.refund", amount=2000), lambda effect: {"id": "re_1"})
        ledger.seal()
        (stage.folder / "auditors-note.txt").write_text(key_of(ledger), encoding="utf-8")
    stage.instead = {"https://ledger.example": place.served.url, "ind.…": place.tokens["auditor"]}
    stage.says = {"--url https://ledger.example": "of each credential beside the record was not compared"}


def witnessed(stage: Stage) -> None:
    witness = stage.closing.enter_context(witness_running(stage.folder / "w", LOG, name="witness.example/1"))
    (stage.folder / "checkpoint").write_text(str(Log().to(5).note), encoding="utf-8")
    stage.told.append(LOG.vkey)
    stage.instead = {
        "https://witness.example/prefix": witness.url,
        "witness.example/1+f1ca4bea+…": witness.key.public.vkey,
    }


STAGES: dict[str, Callable[[Stage], None]] = {
    "README.md": readme,
    "docs/cli.md": command_line,
    "docs/deploy.md": deploy,
    "docs/export.md": export,
    "docs/filters.md": filters,
    "docs/forgetting.md": forgetting,
    "docs/how-to/auditor.md": auditor,
    "docs/how-to/backup.md": backup,
    "docs/how-to/shard.md": shards,
    "docs/how-to/slack.md": slack,
    "docs/in-doubt.md": doubtful,
    "docs/integrations/matrix.md": nothing,
    "docs/journal.md": journal,
    "docs/keys.md": some_work,
    "docs/migrate/agent-ledger.md": from_agent_ledger,
    "docs/migrate/provedex.md": from_provedex,
    "docs/migrate/zehrava.md": from_zehrava,
    "docs/notifications.md": notifications,
    "docs/people.md": empty,
    "docs/policy.md": policy,
    "docs/postgres.md": postgres,
    "docs/server.md": nothing,
    "docs/verify.md": verified,
    "docs/witness.md": witnessed,
}
