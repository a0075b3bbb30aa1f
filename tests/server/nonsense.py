"""Makes requests out of the description: mostly as it says, sometimes not at all."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

TEXTS = [
    *(
        "",
        "a",
        "charge",
        "run-1",
        "run-2",
        "\0",
        "x" * 600,
        "\u202e",
        "💥",
        "' OR 1=1 --",
        "../../etc/passwd",
        "%",
        "_",
    ),
    *("indelible:journal", "indelible:approvals", "eff_", "apr_", "0" * 64, "f" * 64, "2030-01-01T00:00:00Z", "$set"),
    *("9999-12-31T23:59:59-14:00", "\ud800", "a\nb", "name+0123abcd+AAAA", "1e999", "None", "{}", "-"),
]
NUMBERS = [0, 1, -1, 2, 5, 60, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**40, 1.5, 1e308, -0.0, 0.001, 1000, 1001]
LIKELY = ["charge", "mail", "run-1", "run-2", "a reason that is long enough for a token"]
_PREFIXES = {"eff": "effect_id", "apr": "approval_id", "grt": "grant_id", "dlg": "delegation_id"}
_KEPT = ("token", "digest", "key", "vkey", "note", "run_id")


class Nonsense:
    """Gives requests, the same for the same seed, and uses what earlier answers named."""

    def __init__(self, openapi: dict[str, Any], seed: int) -> None:
        self.chosen = random.Random(seed)
        self._schemas = openapi["components"]["schemas"]
        self._named: dict[str, list[str]] = defaultdict(list)
        self._claims: list[tuple[str, dict[str, Any]]] = []
        self._questions: list[tuple[str, dict[str, Any]]] = []
        self._named["path"] = ["0/000", "0/000.p/5", "entries/000.p/3", "1/000", "0/x001/000"]

    def is_likely(self, share: float) -> bool:
        return self.chosen.random() < share

    def request(self, template: str, told: dict[str, Any]) -> tuple[str, dict[str, str], dict[str, bytes], Any]:
        """Gives a path, a query, headers and a body for an operation."""
        query: dict[str, str] = {}
        headers: dict[str, bytes] = {}
        template, fitting = self._about_one(template)
        for each in told.get("parameters", []):
            name = each["name"]
            if each["in"] == "path":
                known = self._named[name]
                value = self.chosen.choice(known if known and self.is_likely(0.9) else TEXTS)
                safe = "/" if name == "path" else ""
                template = template.replace(f"{{{name}}}", quote(value.encode("utf-8", "replace"), safe=safe))
            elif each.get("required") or self.is_likely(0.4):
                value = str(self.value(each["schema"], name)).encode("utf-8", "replace").decode()
                if each["in"] == "query":
                    query[name] = "0.001" if name == "wait" else value
                else:
                    tags = ['"1"', '"2"', 'W/"1"', "*", value]
                    headers[name] = self.chosen.choice(tags).encode("latin-1", "replace").translate(None, b"\0\n")
        body = None
        if "requestBody" in told:
            body = self.value(told["requestBody"]["content"]["application/json"]["schema"])
            if isinstance(body, dict):
                body |= {name: value for name, value in fitting.items() if name in body}
        return template, query, headers, body

    def _about_one(self, template: str) -> tuple[str, dict[str, Any]]:
        """Chooses one claim or question that is known, most of the time: what is sent then fits together."""
        places = {"{effect_id}": self._claims, "{approval_id}": self._questions, "{intent_id}": self._questions}
        for place, known in places.items():
            if place in template and known and self.is_likely(0.7):
                name, fitting = self.chosen.choice(known[-20:])
                return template.replace(place, name), fitting
        return template, {}

    def value(self, schema: dict[str, Any], name: str = "", depth: int = 0) -> Any:
        """Gives a value that fits a schema, most of the time."""
        if self.is_likely(0.04):
            return self.anything()
        while "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self.value(self.chosen.choice(schema[union]), name, depth)
        if "const" in schema or "enum" in schema:
            return schema["const"] if "const" in schema else self.chosen.choice(schema["enum"])
        if self._named.get(name) and self.is_likely(0.8):
            return self.chosen.choice(self._named[name])
        makers: dict[Any, Callable[[], Any]] = {
            "object": lambda: self._object(schema, depth),
            "array": lambda: [self.value(schema.get("items", {}), name, depth + 1) for _ in range(self._few())],
            "integer": lambda: self.chosen.choice([0, 1, 1, 2, 5, 100] if self.is_likely(0.85) else NUMBERS),
            "number": lambda: self.chosen.choice([0.001, 1, 30.0, 600] if self.is_likely(0.85) else NUMBERS),
            "boolean": lambda: self.is_likely(0.5),
            "null": lambda: None,
            "string": lambda: self._text(schema),
        }
        return makers.get(schema.get("type"), lambda: self.anything(depth))()

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        if "properties" not in schema:
            return {
                self.chosen.choice(["amount", "order", "$set"]): self.anything(depth + 1) for _ in range(self._few())
            }
        needed = schema.get("required", [])
        made = {
            name: self.value(part, name, depth + 1)
            for name, part in schema["properties"].items()
            if name in needed or self.is_likely(0.35)
        }
        return {**made, self.chosen.choice(TEXTS): 1} if self.is_likely(0.03) else made

    def _text(self, schema: dict[str, Any]) -> str:
        if schema.get("format") == "date-time" and self.is_likely(0.7):
            return "2030-01-01T00:00:00Z"
        return self.chosen.choice(LIKELY if self.is_likely(0.8) else TEXTS)

    def anything(self, depth: int = 0) -> Any:
        """Gives any value."""
        kind = self.chosen.random()
        if kind < 0.3 or depth > 3:
            return self.chosen.choice(TEXTS)
        if kind < 0.65:
            return self.chosen.choice([*NUMBERS, True, False, None])
        if kind < 0.82:
            return [self.anything(depth + 1) for _ in range(self._few())]
        return {self.chosen.choice(TEXTS): self.anything(depth + 1) for _ in range(self._few())}

    def _few(self) -> int:
        return self.chosen.randint(0, 3)

    def learn(self, answer: Any) -> None:
        """Keeps names that an answer tells."""
        if isinstance(answer, list):
            for each in answer:
                self.learn(each)
        if not isinstance(answer, dict):
            return
        if {"effect", "fence", "token"} <= answer.keys():
            fitting = {"token": answer["token"], "attempt": answer["fence"]}
            self._claims.append((answer["effect"]["id"], fitting))
        if str(answer.get("id", "")).startswith("apr_") and "digest" in answer:
            self._questions.append((answer["id"], {"digest": answer["digest"]}))
        for name, value in answer.items():
            if isinstance(value, str):
                known = _PREFIXES.get(value[:3]) if name == "id" else name if name in _KEPT else None
                if known is not None and value:
                    self._named["keys" if known == "vkey" else "after" if known == "note" else known].append(value)
            self.learn(value)
