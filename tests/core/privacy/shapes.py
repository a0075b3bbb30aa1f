"""Usual shapes of secrets, for the detectors: each is a name, a text, and the part that must not be recorded.

All are made up. They are put together from pieces, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from indelible.core.privacy.detectors import DETECTORS, Detector, found_in
from indelible.integrations.detect_secrets import patterns

PAGE = Path(__file__).parents[3] / "docs/redaction.md"
WORD = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4"
HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
VISA, AMEX = "4111111111111111", "378282246310005"


class Shape(NamedTuple):
    """One way in which a secret stands in a text."""

    detector: str
    name: str
    text: str
    secret: str


def _cards() -> Iterator[tuple[str, str]]:
    """Give each shape's name and text; what stands around the number in it is no part of the secret."""
    groups = [VISA[start : start + 4] for start in range(0, 16, 4)]
    yield "digits alone", VISA
    for name, apart in (
        ("spaces", " "), ("dashes", "-"), ("dots", "."), ("underscores", "_"), ("slashes", "/"), ("two spaces", "  "),
        ("tabs", "\t"), ("no-break spaces", "\u00a0"), ("narrow no-break spaces", "\u202f"), ("en dashes", "\u2013"),
        ("space, dash, space", " - "), ("URL-encoded spaces", "%20"), ("plus signs", "+"), ("line breaks", "\n"),
    ):  # fmt: skip
        yield f"groups of four with {name}", apart.join(groups)
    yield "American Express, 15 digits", AMEX
    yield "American Express in groups 4-6-5", f"{AMEX[:4]} {AMEX[4:10]} {AMEX[10:]}"
    yield "Mastercard", "5555 5555 5555 4444"
    yield "Diners Club, 14 digits", "30569309025904"
    yield "UnionPay, 19 digits", "6212345678901232"
    yield "magnetic stripe", f"%B{VISA}^DOE/JOHN^2912"
    yield "before an expiry date", f"{VISA} 12/27"
    yield "before a security code", f"{VISA} 123"
    yield "behind an amount", f"25 {VISA}"
    yield "right behind a word", f"card{VISA}"
    yield "right before a word", f"{VISA}visa"
    yield "Maestro, 12 digits", "676770000000"
    yield "full-width digits", "".join(chr(0xFF10 + int(digit)) for digit in VISA)
    yield "written in words", "four one one one, and so on"


def _tokens() -> Iterator[tuple[str, str, str]]:
    for name, before in (
        ("Bearer", "Authorization: Bearer "), ("Bearer, two spaces", "Authorization: Bearer  "),
        ("Authorization: Token", "Authorization: Token "), ("password=", "password="), ("DB_PASSWORD=", "DB_PASSWORD="),
        ("pwd=", "pwd="), ("passphrase:", "passphrase: "), ("client_secret", 'client_secret": "'),
        ("clientSecret", '"clientSecret": "'), ("accessToken", '"accessToken":"'), ("refresh_token", "refresh_token="),
        ("aws_secret_access_key", "aws_secret_access_key = "), ("x-api-key", "x-api-key: "), ("apiKey", "apiKey: '"),
        ("session cookie", "Set-Cookie: sessionid="), ("signature in an address", "https://a.example/x?sig="),
        ("AccountKey", "AccountName=x;AccountKey="), ("PHP array", "'password' => '"),
        ("the password is", "the password is "),
    ):  # fmt: skip
        yield name, f"{before}{WORD}", WORD
    yield "Basic", "Authorization: Basic " + WORD, WORD
    yield "password in an address", f"postgresql://app:{WORD}@db/x", WORD
    yield "password without a user", f"redis://:{WORD}@cache:6379", WORD
    for name, token in (
        ("Stripe", "sk_live_" + WORD[:24]), ("OpenAI", "sk-proj-" + WORD), ("Anthropic", "sk-ant-api03-" + WORD),
        ("GitHub", "ghp_" + WORD + "aB3"), ("GitLab", "glpat-" + WORD[:20]), ("Slack", "xoxb-1234567890-" + WORD),
        ("AWS key id", "AKIA" + "IOSFODNN7EXAMPLE"), ("Google API key", "AIza" + WORD + "Ab"),
        ("Google OAuth", "ya29." + WORD), ("Google client secret", "GOCSPX-" + WORD),
        ("SendGrid", f"SG.{WORD[:22]}.{WORD}aB3dE5gH7j"),
        ("Twilio", "SK" + HEX), ("Mailgun", "key-" + HEX), ("Mailchimp", HEX + "-us21"), ("Shopify", "shpat_" + HEX),
        ("PyPI", "pypi-" + WORD), ("DigitalOcean", "dop_v1_" + HEX * 2), ("Databricks", "dapi" + HEX),
        ("Hugging Face", "hf_" + WORD), ("npm", "npm_" + WORD), ("HashiCorp Vault", "hvs." + WORD),
        ("Telegram bot", "123456789:AA" + WORD), ("Linear", "lin_api_" + WORD), ("Notion", "ntn_" + WORD),
        ("Supabase", "sbp_" + HEX), ("Grafana", "glsa_" + WORD), ("JSON web token", "eyJhbGciOi.eyJzdWIiOi." + WORD),
        ("bare hexadecimal, 64 digits", HEX * 2), ("bare UUID", "0f1e2d3c-4b5a-4978-8796-a5b4c3d2e1f0"),
        ("bare base64, 40 characters", WORD + "aB3dE5g"), ("recovery words", "zoo zoo zoo zoo zoo wrong"),
    ):  # fmt: skip
        yield name, f"use {token} here", token
    hook = f"T00000000/B00000000/{WORD}"
    yield "Slack webhook", "https://hooks.slack.com/services/" + hook, hook


def shapes() -> list[Shape]:
    """List all shapes."""
    cards = [Shape("card", name, f"pay with {text} now", VISA if VISA in text else text) for name, text in _cards()]
    return cards + [Shape("token", name, text, secret) for name, text, secret in _tokens()]


def is_missed(shape: Shape, detectors: Iterable[Detector] | None = None) -> bool:
    """Say whether a part of the secret would be recorded."""
    start = shape.text.index(shape.secret)
    spans = [span for one in detectors or (DETECTORS[shape.detector],) for span in found_in(shape.text, one)]
    return not set(range(start, start + len(shape.secret))) <= {place for span in spans for place in range(*span)}


def miss_list() -> str:
    """Return the section of the page that says which shapes are found and which are not."""
    lines = ["| detector | shapes tried | found | not found |", "|---|---|---|---|"]
    for name in ("card", "token"):
        tried = [shape for shape in shapes() if shape.detector == name]
        missed = [shape.name for shape in tried if is_missed(shape)]
        listed = "; ".join(missed) or "none"
        lines.append(f"| `{name}` | {len(tried)} | {len(tried) - len(missed)} | {listed} |")
    library = [Detector("pattern", pattern) for pattern in patterns()]
    found = [shape.name for shape in tried if not is_missed(shape, library)]
    lines.append(f"| detect-secrets | {len(tried)} | {len(found)} | all but: {'; '.join(found)} |")
    return "\n".join(lines)


if __name__ == "__main__":  # writes the list into the page: python -m tests.core.privacy.shapes
    text = PAGE.read_text()
    begin, end = text.index("| detector | shapes tried"), text.index("\n\n", text.index("| detector | shapes tried"))
    PAGE.write_text(text[:begin] + miss_list() + text[end:])
