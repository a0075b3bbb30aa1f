"""Promises of redaction: what a rule names is not recorded, equal secrets stay equal, and nobody can guess or forge."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from indelible.core.approvals.edits import holds_mark
from indelible.core.commands import Claimed, InDoubt, Moved, Replayed
from indelible.core.effects import walk
from indelible.core.effects.calls import Options, ToolCall
from indelible.core.effects.effect import Failed, Succeeded
from indelible.core.effects.identity import identify
from indelible.core.effects.requests import Invoke, Judge, Judged, Raised, Returned, Submit
from indelible.core.effects.tightening import handling_for
from indelible.core.policy.verdicts import ALLOWED
from indelible.core.privacy.detectors import DETECTORS, found_in, passes_luhn
from indelible.core.privacy.redaction import Redactor, Screen, check_rules, key_check, subject_mark, subject_of
from indelible.core.values.canonical import decode, encode
from indelible.core.values.tags import Redacted
from indelible.errors import BadCall, MayHaveHappened, NothingHappened
from tests.core.making import ADA, CountingMint, claim_of, effect, prepared

KEY = b"\x01" * 32
CARD = "4242 4242 4242 4242"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc/+=\n-----END RSA PRIVATE KEY-----"


def redactor(*rules: Any, key: bytes = KEY, tenant: str = "default") -> Redactor:
    return Redactor(check_rules(list(rules)), key, tenant)


def recorded(args: dict[str, Any], *rules: Any, key: bytes = KEY) -> Any:
    return decode(redactor(*rules, key=key).screen(encode(args)).recorded_args)


# ── paths ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rule", "args", "hidden"),
    [
        ("args.card.number", {"card": {"number": "SECRET", "year": 2030}}, ["card", "number"]),
        ("args.cards[].number", {"cards": [{"number": "SECRET"}]}, ["cards", 0, "number"]),
        ("args.*.pin", {"anna": {"pin": "SECRET"}}, ["anna", "pin"]),
        ("args.words[]", {"words": ["SECRET"]}, ["words", 0]),
        ("*.password", {"password": "SECRET"}, ["password"]),
        ("*.password", {"a": [{"b": {"password": "SECRET"}}]}, ["a", 0, "b", "password"]),
        ("*.login.password", {"a": {"login": {"password": "SECRET"}}}, ["a", "login", "password"]),
        ("*[].ssn", {"a": {"people": [{"ssn": "SECRET"}]}}, ["a", "people", 0, "ssn"]),
        ("args.who", {"who": {"name": "SECRET", "tags": ["SECRET"]}}, ["who"]),
        ("args.beyond ascii é", {"beyond ascii é": "SECRET"}, ["beyond ascii é"]),
    ],
)
def test_what_a_path_names_is_not_recorded(rule: str, args: dict[str, Any], hidden: list[Any]) -> None:
    form = recorded(args, rule)
    assert "SECRET" not in repr(form)
    here = form
    for step in hidden:
        here = here[step]
    assert isinstance(here, Redacted)


@pytest.mark.parametrize(
    ("rule", "args"),
    [
        ("args.number", {"card": {"number": "seen"}}),
        ("args.card.number", {"card": "seen"}),
        ("args.card.number.digits", {"card": {"number": ["seen"]}}),
        ("args.cards.number", {"cards": [{"number": "seen"}]}),
        ("result.number", {"number": "seen"}),
        ("args.pin", {"pin": None}),
    ],
)
def test_what_no_path_names_is_recorded_as_it_is(rule: str, args: dict[str, Any]) -> None:
    assert recorded(args, rule) == args


def test_paths_of_results_hold_for_results() -> None:
    result = encode({"items": [{"ssn": "SECRET", "name": "ada"}], "password": "SECRET"})
    form = decode(redactor("result.items[].ssn", "*.password", "args.name").redacted(result, "result"))
    assert form["items"][0]["name"] == "ada"
    assert "SECRET" not in repr(form)


# ── marks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_equal_secrets_have_equal_marks_and_different_ones_do_not() -> None:
    values = ["a", "b", 1, "1", True, None, 1.5, b"a", [], {}, Decimal(1), datetime(2030, 1, 1, tzinfo=UTC)]
    marks = {redactor("*.x").mark(value).mark for value in values}
    assert len(marks) == len(values)
    assert redactor("*.x").mark("a") == redactor("card").mark("a")


def test_a_secret_of_one_tenant_cannot_be_guessed_by_another_who_makes_calls() -> None:
    marks = {redactor("*.x", tenant=tenant).mark("1234") for tenant in ("acme", "acme2", "Acme")}
    assert len(marks) == 3


def test_the_published_vector_of_a_mark() -> None:
    from tests.core.values.recorded import REFERENCE_PAGE

    assert f"`{redactor('*.x').mark('hunter2').mark}`" in REFERENCE_PAGE.read_text(encoding="utf-8")


def test_without_the_key_nobody_can_try_out_guesses() -> None:
    one, other = (recorded({"pin": "1234"}, "args.pin", key=key) for key in (KEY, b"\x02" * 32))
    assert one != other


@pytest.mark.parametrize("rules", [("args.to",), ("email",), ("card",), ("args.to", "email", "card")])
def test_whoever_passes_a_mark_does_not_pass_for_who_passed_its_value(rules: tuple[str, ...]) -> None:
    """An agent sees marks in what it gets back. Passing one must not be the call that was approved."""
    for secret in ("ada@example.com", 4242424242424242, CARD):
        honest = recorded({"to": secret}, *rules)
        forged = recorded({"to": honest["to"]}, *rules)
        assert honest["to"] == secret or forged != honest


@pytest.mark.parametrize(
    "result",
    [
        {"ssn": "078"},
        {"gave": {"ssn": "078"}, "is_return": False},
        {"gave": {"return_value": {"ssn": "078"}}, "is_return": True},
        {"call_id": "c", "gave": {"$message": {"data": {"content": '{"ssn": "078"}', "artifact": {"ssn": "078"}}}}},
        {"call_id": "c", "gave": {"$command": {"update": {"ssn": "078"}}}},
        {"call_id": "c", "to_parent": {"$command": {"update": {"ssn": "078"}}}},
        {"call_id": "c", "gave": [{"$command": {"update": {"ssn": "078"}}}, {"$message": {"data": {"content": "x"}}}]},
        {"content": [{"text": ' {"ssn": "078"}'}], "structuredContent": {"ssn": "078"}},
        {"content": ['{"ssn": "078\\ud800"}']},
        {"content": ["[" * 100_000 + "078"]},
    ],
)
@pytest.mark.parametrize("rule", ["result.ssn", "*.ssn"])
def test_a_path_of_a_result_holds_where_an_adapter_wraps_it(rule: str, result: Any) -> None:
    assert b"078" not in redactor(rule).redacted(encode(result), "result")


BLOCK, TEXT = {"type": "text", "text": ' {"ssn": "078"}'}, {"type": "text", "text": "078"}
ITEM_BLOCKS: Any = [
    lambda block: {"content": [block, block]},
    lambda block: {"gave": [block]},
    lambda block: [block, block],
    lambda block: {"call_id": "c", "gave": {"$message": {"data": {"content": [block]}}}},
]


@pytest.mark.parametrize("made", ITEM_BLOCKS, ids=["mcp", "strands", "openai", "langchain"])
def test_95_a_path_of_items_holds_in_the_blocks_that_a_framework_makes_of_them(made: Any) -> None:
    for rule in ("result[].ssn", "result[][].ssn"):
        assert b"078" not in redactor(rule).redacted(encode(made(BLOCK)), "result")
        assert b"078" in redactor(rule).redacted(encode(made(TEXT)), "result")
    assert b"078" not in redactor("result[]").redacted(encode(made(TEXT)), "result")
    assert b"078" in redactor("result.items[].ssn").redacted(encode(made(BLOCK)), "result")


def test_95_a_path_of_a_result_holds_beside_it_too() -> None:
    told = {"content": [], "_meta": {"ssn": "078"}}
    assert b"078" not in redactor("result.ssn").redacted(encode(told), "result")


@pytest.mark.parametrize("around", ["gave", "to_parent"])
def test_a_path_names_a_part_of_a_command(around: str) -> None:
    result = {"call_id": "c", around: {"$command": {"goto": "x", "update": {"ssn": "078"}}}}
    assert b"078" not in redactor("result.update.ssn").redacted(encode(result), "result")


def test_texts_and_places_that_no_path_names_stay_as_they_are() -> None:
    for result in ({"a": {"ssn": 1}}, {"texts": ["{ssn", "[1]", '{"ssnn": 1}', '{"a": {"ssn": 1}}', "", "ssn"]}):
        assert decode(redactor("result.ssn").redacted(encode(result), "result")) == result
    text = json.dumps({"ssn": "078", "é": 1.50})
    kept = decode(redactor("result.ssn").redacted(encode(text), "result"))
    assert json.loads(kept) == {"ssn": str(redactor("*.x").mark("078")), "é": 1.5}


def test_a_mark_is_known_in_each_of_its_forms() -> None:
    mark = redactor("*.x").mark("a")
    assert str(mark) == f"[redacted value {mark.mark[:32]}]"
    for value in (mark, str(mark), {"$redacted": mark.mark}, [{"a": f"pay {mark}"}], {str(mark): 1}):
        assert holds_mark(value)
    assert not holds_mark({"a": ["redacted", 1, None], "$redacted": 1})


def test_a_mark_cannot_be_forged_by_content() -> None:
    mark = redactor("*.x").mark("a").mark
    assert decode(encode({"$redacted": mark})) == {"$redacted": mark}
    assert decode(encode({"x": Redacted(mark)})) == {"x": Redacted(mark)}
    for bad in ("", "xyz", mark.upper(), mark + "0"):
        with pytest.raises(ValueError, match="malformed"):
            decode(json.dumps({"$redacted": bad}, separators=(",", ":")).encode())


# ── detectors ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text", "secret"),
    [
        ("card", f"card {CARD} declined", CARD),
        ("card", "4242424242424242", "4242424242424242"),
        ("card", "amex 3782-822463-10005!", "3782-822463-10005"),
        ("card", "(5555555555554444)", "5555555555554444"),
        ("email", "write to ada.l+x@mail.example.co.uk today", "ada.l+x@mail.example.co.uk"),
        ("email", "<zoë@exämple.de>", "zoë@exämple.de"),
        ("token", "Authorization: Bearer abc.DEF-123_456~x", "abc.DEF-123_456~x"),
        ("token", "authorization: basic YWRhOmh1bnRlcjI=", "YWRhOmh1bnRlcjI="),
        ("token", "key sk-proj-0123456789abcdef0123 was used", "sk-proj-0123456789abcdef0123"),
        ("token", "sk_" + "live_0123456789abcdef", "0123456789abcdef"),
        ("token", "ghp_0123456789abcdefghij0123456789abcdef", "0123456789abcdefghij"),
        ("token", "xoxb-123456789012-abcdefghij", "123456789012"),
        ("token", "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("token", "AIzaSyA-0123456789abcdefghijklmnopqrstu", "SyA-0123456789"),
        ("token", "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_-123", "eyJzdWIiOiIxIn0.abc_-123"),
        ("token", "postgresql://ada:hunter2@db/x", "hunter2"),
        ("token", 'api_key="0123abcd"', "0123abcd"),
        ("token", "password: hunter2", "hunter2"),
        ("private_key", f"see {PEM} end", "MIIEow"),
        ("private_key", PEM[:50], "MIIEow"),
    ],
)
def test_detectors_find_secrets_in_texts(name: str, text: str, secret: str) -> None:
    found = redactor(name).text(text)
    assert secret not in found
    assert re.search(rf"\[redacted {name} [0-9a-f]{{32}}\]", found)
    assert recorded({"note": text}, name) == {"note": found}
    assert recorded({text: 1}, name) == {found: 1}, "names of members are texts too"


@pytest.mark.parametrize(
    "text",
    [
        "order 1731672000123 of 2030-01-02",
        "4242 4242 4242 4243",
        "id 4242424242424242abc",
        "12345",
        "not@mail",
        "a @ b.c",
        "the bearer of news",
        "password",
        "tokens: 5",
        "https://example.com/a:b/c",
        "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
        "",
    ],
)
def test_detectors_leave_other_texts_alone(text: str) -> None:
    assert redactor(*DETECTORS).text(text) == text


def test_detectors_look_into_numbers_and_bytes() -> None:
    args = {
        "n": 4242424242424242,
        "raw": CARD.encode(),
        "uuid": UUID(int=1),
        "yes": True,
        "some": 7,
        "f": 1.5,
        "b": b"x",
    }
    form = recorded({**args, "at": datetime(2030, 1, 1, tzinfo=UTC), "d": Decimal("1.5"), "none": None}, "card")
    assert isinstance(form["n"], Redacted)
    assert isinstance(form["raw"], Redacted)
    assert {name: form[name] for name in ("uuid", "yes", "some", "f", "b", "none")} == {
        **{name: args[name] for name in ("uuid", "yes", "some", "f", "b")},
        "none": None,
    }


def test_detectors_look_into_lists() -> None:
    assert CARD not in repr(recorded({"notes": [CARD, [{"x": f"<{CARD}>"}]]}, "card"))


def test_a_pattern_of_ones_own_is_a_detector() -> None:
    rule = re.compile(r"INT-\d+")
    assert "INT-77" not in redactor(rule).text("case INT-77 open")
    assert redactor(re.compile("x*")).text("abc") == "abc", "what matches nothing hides nothing"


@pytest.mark.parametrize("digits", ["4242424242424242", "378282246310005", "79927398713", "0"])
def test_luhn_accepts_valid_numbers(digits: str) -> None:
    assert passes_luhn(digits)
    assert not passes_luhn(digits[:-1] + str((int(digits[-1]) + 1) % 10))


@pytest.mark.parametrize(
    "piece",
    ["a", "a.b@c.", "4 ", "4242424242424242 ", "token=", "://", "://a:", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaa."],
)
def test_no_text_makes_a_detector_slow(piece: str) -> None:
    """A pattern that takes the square of the text's length does not end within the test's time limit."""
    text = piece * (1_000_000 // len(piece))
    for detector in DETECTORS.values():
        for _ in found_in(text, detector):
            pass


# ── a call's own secrets ─────────────────────────────────────────────────────────────────────────────────────────────


def screen(args: dict[str, Any], *rules: Any) -> Screen:
    return redactor(*rules).screen(encode(args))


def test_a_secret_of_the_call_is_known_again_in_what_comes_back() -> None:
    made = screen({"login": {"password": "hunter2", "pins": [123456, b"raw-secret"]}, "x": 1}, "args.login")
    assert "hunter2" not in made.text("bad password hunter2!")
    back = decode(
        made.result(
            encode(came := {"echo": "hunter2", "n": 123456, "m": 1234567, "hunter2": 1, "raw": b"raw-secret"}), came
        )
    )
    assert "hunter2" not in repr(back)
    assert isinstance(back["n"], Redacted)
    assert back["m"] == 1234567, "a number that only contains it is another number"
    assert isinstance(back["raw"], Redacted)


@pytest.mark.parametrize(
    "secret",
    [85000.25, 85000, Decimal("85000.25"), date(1970, 5, 6), datetime(1970, 5, 6, 7, tzinfo=UTC), timedelta(days=3)],
    ids=lambda secret: type(secret).__name__,
)
def test_a_secret_that_is_no_text_is_known_again_in_what_comes_back(secret: Any) -> None:
    made = screen({"x": secret}, "args.x")
    back: Any = decode(made.result(encode(came := {"same": secret, "told": f"it is {secret}", "other": 1.5}), came))
    assert (isinstance(back["same"], Redacted), back["other"]) == (True, 1.5)
    assert str(secret) not in back["told"]
    if isinstance(secret, datetime):
        assert secret.isoformat() not in made.text(f"at {secret.isoformat()}")


@pytest.mark.parametrize("secret", ["two\nlines", 'a"quote', "back\\slash", "pässword", "it's\tthis"])
def test_95_a_secret_of_the_call_is_known_again_where_it_is_escaped(secret: str) -> None:
    made = screen({"x": secret}, "args.x")
    told = json.dumps({"used": secret})
    for text in (secret, told, json.dumps(secret, ensure_ascii=False), str(KeyError(secret)), repr([secret])):
        assert made.text(f"<{text}>") != f"<{text}>"
        assert "[redacted value" in decode(made.result(encode(text), text))  # type: ignore[operator]
    assert json.loads(made.text(told))["used"].startswith("[redacted value"), "it is JSON as before"


def test_the_longer_secret_goes_first() -> None:
    made = screen({"a": "hunter2", "b": "hunter2-and-more"}, "args.a", "args.b")
    assert "more" not in made.text("got hunter2-and-more")


def test_very_short_and_empty_secrets_do_not_eat_the_texts() -> None:
    made = screen(
        {"a": "x", "b": "", "c": True, "d": 1.5, "e": [{"f": "ab"}]}, "args.a", "args.b", "args.c", "args.d", "args.e"
    )
    assert made.text("an example") == "an example"
    assert made.secrets == ()


def test_of_very_many_secrets_the_longest_are_looked_for() -> None:
    made = screen(
        {"all": [f"{'x' * 10}{number:05}" for number in range(3000)] + ["much longer than those"]}, "args.all"
    )
    assert len(made.secrets) == 1000
    assert "longer" not in made.text("it was much longer than those")


def test_a_screen_tells_nothing_by_its_repr() -> None:
    assert "hunter2" not in repr(screen({"a": "hunter2"}, "args.a"))


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "rules",
    [
        *("args.x", re.compile("x"), {"args.x"}, None, ["args"], ["arg.x"], ["cards"]),
        *([1], ["args."], ["args..x"], [""], [re.compile(b"x")], ["*"]),
    ],
)
def test_a_misspelt_rule_is_refused_at_once(rules: Any) -> None:
    with pytest.raises(BadCall, match="redact"):
        check_rules(rules)


def test_what_ledger_tool_or_call_redacts_is_redacted() -> None:
    lower, own = Options(redact=["card"]), Options(redact=["args.x"])
    assert handling_for(lower, None, own, "pay").redact == ("card", "args.x")
    assert handling_for(lower, own, Options(), "pay").redact == ("card", "args.x")
    assert handling_for(Options(), None, own, "pay").redact == ("args.x",)
    with pytest.raises(BadCall, match="redact"):
        Options(redact=["nonsense"])


# ── subjects ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_subject_is_what_stands_at_its_path_or_what_a_function_says() -> None:
    args = encode({"customer": {"id": 7, "name": "ada"}, "none": None, "uuid": UUID(int=7)})
    assert subject_of("args.customer.id", args, "t") == "7"
    assert subject_of("args.customer.name", args, "t") == "ada"
    assert subject_of("args.uuid", args, "t") == str(UUID(int=7))
    assert subject_of("args.none", args, "t") is None
    assert subject_of(lambda given: given["customer"]["name"], args, "t") == "ada"
    assert subject_of(lambda given: None, args, "t") is None


@pytest.mark.parametrize(
    "subject", ["args.nobody", "args.customer.id.x", "args.customer", lambda args: True, lambda args: ""]
)
def test_a_subject_that_names_nobody_is_refused(subject: Any) -> None:
    with pytest.raises(BadCall, match="subject"):
        subject_of(subject, encode({"customer": {"id": 7}}), "t")


def test_options_refuse_a_subject_that_is_no_argument() -> None:
    Options(subject=lambda args: args["x"])
    for wrong in ("customer", 7):
        with pytest.raises(BadCall, match="subject"):
            Options(subject=wrong)  # type: ignore[arg-type]


def test_marks_of_subjects_differ_by_key_tenant_and_subject() -> None:
    marks = {
        subject_mark(key, tenant, subject)
        for key in (KEY, b"\x02" * 32)
        for tenant, subject in (("a", "bc"), ("ab", "c"), ("a", "b"))
    }
    assert len(marks) == 6
    assert all(re.fullmatch(rb'"[0-9a-f]{64}"', mark) for mark in marks)


def test_what_a_ledger_keeps_of_its_key_is_not_the_key() -> None:
    assert key_check(KEY) != key_check(b"\x02" * 32)
    assert KEY.hex() not in key_check(KEY)


# ── on the way of a call ─────────────────────────────────────────────────────────────────────────────────────────────


def walked(*answers: Any, **changes: Any) -> tuple[list[Any], Any]:
    """Gives the commands of a call with a secret, and how it ended."""
    call = ToolCall(tool="login", args={"password": "hunter2"}, run_id="run-1")
    made = screen(call.args, "args.password", "card")
    identity = identify(call, "default", args_json=made.recorded_args)
    steps = walk.run(replace(prepared(call, **changes), identity=identity, screen=made), CountingMint())
    assert isinstance(next(steps), Judge)
    asked = [steps.send(Judged(ALLOWED))]
    try:
        for answer in answers:
            asked.append(steps.send(answer))  # noqa: PERF401 - a generator would hide the end of the walk
    except StopIteration as end:
        return asked, end.value
    except Exception as error:
        return asked, error
    raise AssertionError(f"the walk went on: {asked[-1]}")


CLAIMED = Claimed(claim_of(effect("processing", side_effect="external_mutation")))
MOVED = Moved(effect("succeeded"))


def spoken(asked: list[Any]) -> str:
    return repr([vars_of(request.command) for request in asked if isinstance(request, Submit)])


def vars_of(command: Any) -> dict[str, Any]:
    return {name: getattr(command, name) for name in command.__slots__ if name.endswith("_json")}


def test_a_walk_records_no_secret_of_its_call() -> None:
    said = f"hunter2 {CARD}"
    asked, value = walked(CLAIMED, Returned({"echo": said}), MOVED)
    assert isinstance(asked[1], Invoke)
    assert asked[1].screen is not None
    assert "hunter2" not in spoken(asked) + repr(value) + repr(asked)
    for report in (
        Raised(ValueError(said)),
        Raised(NothingHappened(said)),
        Raised(MayHaveHappened(said)),
        Returned({said, "a set"}),
    ):
        asked, _ = walked(CLAIMED, report, MOVED)
        assert "hunter2" not in spoken(asked)
        assert CARD not in spoken(asked)


def test_a_probes_words_are_screened() -> None:
    doubtful = InDoubt(effect("in_doubt"))
    for report in (Raised(ValueError("hunter2")), Returned("hunter2")):
        asked, error = walked(doubtful, report, reconcile=lambda effect: None)
        assert "hunter2" not in str(error)
    asked, _ = walked(
        doubtful, Returned(Succeeded("hunter2")), MOVED, Replayed(effect("succeeded")), reconcile=lambda effect: None
    )
    assert "hunter2" not in spoken(asked)
    asked, _ = walked(
        doubtful,
        Raised(NothingHappened("hunter2")),
        MOVED,
        Replayed(effect("succeeded")),
        reconcile=lambda effect: None,
    )
    assert "hunter2" not in spoken(asked)
    settling = walk.settle(
        effect("in_doubt"), Failed(CARD), CountingMint(), actor=ADA, evidence=CARD, screen=screen({}, "card")
    )
    assert CARD not in repr(vars_of(next(settling).command))


class Card(NamedTuple):
    number: str
    pin: str


@pytest.mark.parametrize(
    ("rule", "is_refused"), [("*.pin", True), ("args.card.pin", True), ("args.pin", False), ("card", False)]
)
def test_95_arguments_with_a_field_at_another_place_than_a_rule_says_are_refused(rule: str, is_refused: bool) -> None:
    args = {"card": Card("1", "2")}
    with pytest.raises(BadCall) if is_refused else nullcontext():
        redactor(rule).check_named(args, encode(args))
    redactor(rule).check_named({"card": {"pin": "2"}}, encode({"card": {"pin": "2"}}))


@pytest.mark.parametrize(("rule", "kept"), [("result.pin", None), ("result.number", {"told": "2"})])
def test_95_a_result_that_writes_itself_without_the_field_of_a_rule_is_marked_whole(rule: str, kept: Any) -> None:
    """Where the field went is not known: it may be in any member."""
    found = redactor(rule).redacted(encode({"told": "2"}), "result", value={"pin": "2"})
    assert isinstance(decode(found), Redacted) if kept is None else decode(found) == kept


class Odd(dict[str, str]):
    """Cannot be looked into twice, as an object that lost its session."""

    def items(self) -> Any:
        raise RuntimeError("detached")


def test_95_a_result_whose_own_code_raises_is_marked_whole_and_recorded() -> None:
    """The deed is done: an error here would leave it in doubt."""
    found = redactor("result.pin").redacted(encode({"pin": "2"}), "result", value=Odd(pin="2"))
    assert isinstance(decode(found), Redacted)
