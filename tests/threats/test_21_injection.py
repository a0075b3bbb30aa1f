"""Threat 21: a text that reaches the database as SQL reads or changes what nobody asked for.

Texts are parameters of statements that lie in files. Here each text that was ever tried on a database goes through each
place where a text can stand; `INDELIBLE_INJECTIONS=all` sends all of them everywhere.
"""

from __future__ import annotations

import ast
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import indelible
from tests.server.places import Place
from tests.stores.database import Database
from tests.threats.everywhere import Text, texts

ALL = os.environ.get("INDELIBLE_INJECTIONS") == "all"
CANARY = "canary-of-globex"
QUOTES = ["'", '"', "''", "`", "\\", "\\'", "')", "'))", '")', "';", "%27", "\u02bc", "\uff07", "$$", "$a$", "[", "]]"]
TESTS = [
    "' OR '1'='1", "' OR 1=1 --", '" OR ""="', "') OR ('1'='1", "1 OR 1=1", "x' OR tenant='globex", "' OR 1=1#",
    "' OR 1=1/*", "\\' OR 1=1 --", "' || '1'='1' --", "admin'--", "' AND 1=0 UNION ALL SELECT 1,2,3 --",
    "' UNION SELECT name FROM sqlite_schema --", "' UNION SELECT sql,2,3 FROM sqlite_master --",
    "' UNION SELECT usename, passwd FROM pg_shadow --", "' UNION SELECT table_name FROM information_schema.tables --",
    "' UNION SELECT * FROM effects WHERE tenant='globex' --", "1; SELECT pg_sleep(5) --", "' || pg_sleep(5) --",
    "'; DROP TABLE effects; --", "'; DROP TABLE events; --", "x'; DELETE FROM sheets; --", "'); TRUNCATE events; --",
    "'; UPDATE effects SET tenant='acme' --", "'; ATTACH DATABASE '/tmp/x' AS x; --", "'; COPY effects TO '/tmp/x'; --",
    "'; COPY (SELECT '') TO PROGRAM 'id'; --", "'; CREATE TABLE pwned(x); --", "' AND load_extension('x') --",
    "' AND 1=CAST((SELECT version()) AS int) --", "' AND (SELECT 1 FROM effects LIMIT 1)=1 --", "' LIMIT 1 OFFSET 1 --",
    "randomblob(100000000)", "' AND abs(-9223372036854775808) --", "0x27204f5220313d31", "CHR(39)||CHR(79)", "?1", "$1",
    "%s", "%(tenant)s", ":tenant", "{0}", "{tenant}", "${x}", "#{x}", "@@version", "NULL", "null", "%", "_", "%_%", "*",
    "[a-z]*", "a%' ESCAPE '\\", "' ORDER BY 99 --", "' HAVING 1=1 --", "' GROUP BY 1 --", "1e309", "-1", "9" * 40,
    "x' COLLATE nocase --", "' IS NOT NULL --", "E'\\047'", "U&'\\0027'", "\u2019 OR 1=1", "$tag$; DROP TABLE x; $tag$",
]  # fmt: skip
CORPUS = [*QUOTES, *TESTS, *(f"{CANARY}{one}" for one in QUOTES[:4]), *(f"x{one}" for one in QUOTES[:6])]
# By these, a list is asked for where it goes on, or for what is somehow in it: an answer may hold what is ours.
OPEN_ENDED = {"before", "after", "q"}
LISTS = ("effects", "approvals", "grants", "runs", "events", "people", "api_keys", "checkpoints")


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(store_url, keys=tmp_path / "keys")
    yield made
    made.close()


def names_in(place: Place) -> dict[str, str]:
    """Leaves something to find, here and with another tenant, and names what is ours."""
    place.tokens["globex-agent"] = place.tokens["stranger"]
    place.begin("globex-agent", run_id=CANARY, tool=CANARY, args={"canary": CANARY})
    place.post("/v1/runs", {"agent": CANARY, "run_id": f"{CANARY}-run"}, "globex-agent")
    asked = place.begin(run_id="order-1", approval="required").json()
    place.post("/v1/runs", {"agent": "billing", "run_id": "order-2", "token": "a token of a driver's"})
    for tenant in ("acme", "globex"):
        place.ledgers.of(tenant)._seal()
    return {
        "run_id": "order-2",
        "effect_id": asked["effect"]["id"],
        "approval_id": asked["approval"]["id"],
        "key": asked["effect"]["key"],
    }


def chosen(places: list[Text], each: int) -> Iterator[tuple[Text, str]]:
    """Gives some of the corpus for each place, so that all of it is sent somewhere."""
    order = random.Random(21)
    left: list[str] = []
    for one in places:
        for _ in range(len(CORPUS) if ALL else each):
            left = left or order.sample(CORPUS, len(CORPUS))
            yield one, left.pop()


def answered(place: Place, one: Text, text: str, names: dict[str, str]) -> Any:
    path, words = one.request(text, {**_NAMELESS, **names})
    words["headers"] = {**place.headers("admin"), **words.get("headers", {})}
    answer = place.client.request(one.method, path, **words)
    told = f"{one.method} {one.template}: {one.where} {one.name} = {text!r}: {answer.status_code} {answer.text[:300]}"
    assert answer.status_code < 500, told
    sent = str(words) + path
    assert CANARY not in answer.text or CANARY in sent, f"another tenant's: {told}"
    if answer.is_success and one.where == "query" and one.name not in OPEN_ENDED and "json" in _kind(answer):
        found = [row for name in LISTS for row in _rows(answer.json(), name)]
        assert all(text in str(row) for row in found), f"what was not asked for: {told}"
    return answer


_NAMELESS = {"path": "0/000", "tool": "charge", "name": "look", "file": "reference.css", "grant_id": "grt_1"}


def _kind(answer: Any) -> str:
    return str(answer.headers.get("content-type", ""))


def _rows(content: Any, name: str) -> list[Any]:
    rows = content.get(name) if isinstance(content, dict) else None
    return rows if isinstance(rows, list) else []


def test_no_text_anywhere_is_taken_for_sql(place: Place, store_url: str) -> None:
    names = names_in(place)
    with Database(store_url) as database:
        before = database.tables()
        theirs = place.get("/v1/events", "stranger").text
        places = list(texts(place.described.openapi))
        assert len(places) > 150, "there are places to try"
        statuses = [answered(place, one, text, names).status_code for one, text in chosen(places, each=1)]
        assert sum(status < 300 for status in statuses) > 20, "some of them are texts like any other"
        assert database.tables() == before, "no table came, went or changed"
    assert place.get("/v1/events", "stranger").text == theirs, "nothing of another tenant moved"
    assert place.get(f"/v1/effects/{names['effect_id']}").status_code == 200, "nothing was deleted"
    for tenant, who in (("acme", "auditor"), ("globex", "stranger")):
        place.ledgers.of(tenant)._seal()
        (key,) = place.get("/.well-known/indelible-keys.json", who).json()["keys"]
        report = place.post("/v1/journal/verify", {"keys": [key["vkey"]], "deep": True}, who).json()
        assert report["verdict"] == "verified", report["why"]


def test_what_looks_like_sql_comes_back_as_it_was_sent(place: Place) -> None:
    for number, text in enumerate(CORPUS):
        claim = place.begin(run_id=f"run-{number}", args={"text": text, text: 1}).json()
        shown = place.get(f"/v1/effects/{claim['effect']['id']}").json()
        assert shown["effect"]["args"] == {"text": text, text: 1}


# The code


def test_no_statement_is_put_together_from_values() -> None:
    """ruff's S608 is on for all of the package, and nothing that talks to a user's store is excused from it."""
    settings = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    assert re.search(r'select = \[[^\]]*"S"', settings)
    assert "S608" not in settings
    root = Path(indelible.__file__).parent
    excused = [str(file.relative_to(root)) for file in root.rglob("*.py") if "S608" in file.read_text("utf-8")]
    assert all(name.startswith("testing/") for name in excused), excused


def test_what_is_executed_is_never_put_together_on_the_spot() -> None:
    root = Path(indelible.__file__).parent / "stores"
    seen = 0
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and _name_of(node.func) in ("execute", "executemany") and node.args:
                seen += 1
                is_made = isinstance(node.args[0], ast.JoinedStr | ast.BinOp) or ".format" in ast.unparse(node.args[0])
                assert not is_made or _is_constant(node.args[0]), (file, node.lineno, ast.unparse(node))
    assert seen > 20


_WITHOUT_PARAMETERS = ("PRAGMA ", "SET ", "SAVEPOINT ", "RELEASE ", "ROLLBACK TO ", "LISTEN ")


def _is_constant(made: ast.expr) -> bool:
    """A setting's name and a number of ours may be written into a PRAGMA or a SET, which take no parameters."""
    return ast.unparse(made).lstrip("f'\"").upper().startswith(_WITHOUT_PARAMETERS)


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
