"""Verifies a bundle of an Indelible journal. Needs Python 3.11 and `pip install cryptography`, nothing else.

    python verify.py --key 'name+0123abcd+…' [--after OLD_HEAD] [FOLDER]

Get the key from the journal's owner by another way than the bundle; and this program too, if you trust nobody: one that
came with a bundle says what its maker wanted. It exits with 0 verified, 1 tampered, 2 cannot tell. Left to `indelible
verify` are witnesses, freshness, writers' signatures, canonical form, moves of effects and runs, votes of approvals.
"""
# mypy: ignore-errors

import argparse
import json
import re
import sys
from base64 import b64decode, b64encode
from functools import reduce
from hashlib import sha256
from pathlib import Path

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:  # with a traceback Python would end with 1, which means tampered
    sys.stdout.write("CANNOT TELL: this needs a package more; run: pip install cryptography\n")
    sys.exit(2)


class Told(Exception):
    """Ends the work with a verdict; the exit code comes first."""


def expect(is_so, what, code=1):
    if not is_so:
        raise Told(code, what)


def base64(text, what):
    expect(re.fullmatch("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text), f"{what} is no base64")
    expect(b64encode(b64decode(text)).decode() == text, f"{what} is no canonical base64")
    return b64decode(text)


# ── keys: Ed25519, of prime order and written in the one canonical way (RFC 8032) ────────────────────────────────────
LEAF, NODE = b"\0", b"\1"  # RFC 6962 keeps hashes of entries and of pairs apart
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def plus(one, other):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = one, other
    a, b, c, d = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2), 2 * t1 * t2 * D, 2 * z1 * z2
    return tuple(number % P for number in ((b - a) * (d - c), (d + c) * (b + a), (d - c) * (d + c), (b - a) * (b + a)))


def is_sound_key(raw):
    number = int.from_bytes(raw, "little")
    y, is_odd = number & (1 << 255) - 1, number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    if len(raw) != 32 or y >= P or x == 0 or (x * x - square) % P:
        return False
    x = x if x & 1 == is_odd else P - x
    ends = []
    for count in (8, L):  # eight times a sound point is not neutral, and L times is
        total, point = (0, 1, 1, 0), (x, y, 1, x * y % P)
        for bit in reversed(f"{count:b}"):
            total, point = plus(total, point) if bit == "1" else total, plus(point, point)
        ends.append(total[0] == 0 and total[1] == total[2])
    return ends == [False, True]


class Key:
    def __init__(self, vkey):
        self.vkey, parts = vkey.strip(), vkey.strip().split("+", 2)
        expect(len(parts) == 3, f"{vkey[:60]!r} is no public key: it looks like name+0123abcd+base64")
        self.name, content = parts[0], base64(parts[2], "the key")
        self.raw, self.id = content[1:], sha256(self.name.encode() + b"\n" + content).digest()[:4]
        is_good = content[:1] == b"\1" and is_sound_key(self.raw) and self.id.hex() == parts[1]
        expect(is_good and re.fullmatch(r"[^\s+]+", self.name), f"{self.name}: the key is weak or damaged")

    @classmethod
    def of(cls, name, raw):
        content = b"\1" + raw
        key_id = sha256(name.encode() + b"\n" + content).digest()[:4]
        return cls(f"{name}+{key_id.hex()}+{b64encode(content).decode()}")

    def verifies(self, signature, message):
        try:
            return Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message) is None
        except InvalidSignature:
            return False


class Head:
    """Is a signed tree head (a C2SP note): origin, size, root, and the signatures below."""

    def __init__(self, content, name):
        self.name, self.content = name, content
        note = content.decode("utf-8", "replace")
        text, gap, below = note.rpartition("\n\n")
        lines = text.split("\n")
        is_note = gap and note.encode() == content and below[-1:] == "\n" and not re.search("[\0-\t\v-\x1f]", note)
        is_head = is_note and len(lines) >= 3 and all(lines) and re.fullmatch("0|[1-9][0-9]{0,18}", lines[1])
        expect(is_head, f"{name} is no signed tree head")
        self.text, self.origin, self.size, self.root = text + "\n", lines[0], int(lines[1]), base64(lines[2], name)
        expect(len(self.root) == 32, f"{name}: the root has another length")
        self.signatures = []
        for line in below[:-1].split("\n"):
            match = re.fullmatch(r"— ([^\s+]+) (\S+)", line)
            signature = base64(match[2], "a signature") if match else b""
            expect(len(signature) > 4 and len(self.signatures) < 100, f"{name}: {line[:60]!r} is no signature")
            self.signatures.append((match[1], signature[:4], signature[4:]))

    def signed_by(self, key):
        """Did this key sign? A signature that says so and does not fit spoils the head."""
        found = [content for name, key_id, content in self.signatures if (name, key_id) == (key.name, key.id)]
        expect(all(key.verifies(one, self.text.encode()) for one in found), f"{self.name}: a signature does not fit")
        return bool(found)

    def followed(self, keys):
        """Gives these keys, and those that follow them by rotations that stand under the head."""
        found = list(keys)
        for old in found:
            line_id = sha256(old.name.encode() + b"\n\xffindelible/rotation/v1\0" + old.raw).digest()[:4]
            for _, _, said in (one for one in self.signatures if one[:2] == (old.name, line_id)):
                expect(len(said) == 160, f"{self.name}: a rotation has another length")
                new = Key.of(old.name, said[:32])
                message = f"indelible/rotate/v1\0{old.vkey}\n{new.vkey}".encode()
                is_signed = old.verifies(said[32:96], message) and new.verifies(said[96:], message)
                expect(is_signed, f"{self.name}: a rotation is not signed by both keys")
                found += [new] if new.vkey not in {key.vkey for key in found} else []
        return found


# ── the tree: RFC 6962 hashes, kept in tiles of 256 ──────────────────────────────────────────────────────────────────
def hash_of(kind, *parts):
    return sha256(b"".join((kind, *parts))).digest()


def fold(row):
    while len(row) > 32:
        row = b"".join(hash_of(NODE, row[i : i + 64]) for i in range(0, len(row), 64))
    return row


class Tree:
    def __init__(self, wanted):
        self.size, self.edge, self.wanted, self.roots = 0, [], set(wanted), {}

    def add(self, carry):
        """Appends a leaf, and remembers the root at every size that was asked for."""
        rest, self.size = self.size, self.size + 1
        while rest & 1:
            carry, rest = hash_of(NODE, self.edge.pop(), carry), rest >> 1
        self.edge.append(carry)
        if self.size in self.wanted:
            self.roots[self.size] = reduce(lambda right, left: hash_of(NODE, left, right), reversed(self.edge))


def root_by_proof(root, index, size, proof):
    hashes, last = list(proof), size - 1
    while last:
        if index & 1 or index < last:
            sibling = hashes.pop(0) if hashes else b""
            root = hash_of(NODE, sibling, root) if index & 1 else hash_of(NODE, root, sibling)
        index, last = index >> 1, last >> 1
    return root if not hashes else None


def tile_name(kind, number, width):
    digits = str(number).zfill(-(-len(str(number)) // 3) * 3)
    parts = [digits[i : i + 3] for i in range(0, len(digits), 3)]
    path = "/".join([*("x" + part for part in parts[:-1]), parts[-1]])
    return f"tile/{kind}/{path}" + ("" if width == 256 else f".p/{width}")


def tiles_of(size):
    level = 0
    while size:
        full, part = divmod(size, 256)
        yield from ((level, number, 256) for number in range(full))
        if part:
            yield level, full, part
        level, size = level + 1, full


# ── events: exact members, dense and chained runs ────────────────────────────────────────────────────────────────────
FACT = ["actor", "at", "commits", "facts", "log", "prev", "run", "seq", "type", "v", "writer"]
EFFECT = sorted({*FACT, "attempt", "effect", "on_crash", "side_effect", "status", "tool"} - {"facts"})


def read_event(body):
    try:
        event = json.loads(body)
        texts = [event[name] for name in ("log", "prev", "run", "type")] + [*event["commits"].values()]
        is_good = list(event) in (EFFECT, FACT) and all(type(text) is str for text in texts)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        is_good = False
    expect(is_good and event["v"] == 1 and type(event["seq"]) is int, "it is no event of version 1")
    return event


class Examination:
    """Follows events in their order; only a period (`is_dense` is false) may begin and end in the middle of runs."""

    def __init__(self, origin, is_dense):
        self.origin, self.is_dense = origin, is_dense
        self.runs, self.absent, self.rotations, self.revoked, self.lost = {}, {}, [], {}, []
        self.events = self.present = self.lacking = self.named = 0

    def take(self, index, body, values):
        event = read_event(body)
        run, seq, commits = event["run"], event["seq"], event["commits"]
        length, before = self.runs.get(run) or ((0, "0" * 64) if self.is_dense or seq == 0 else (-1, ""))
        expect(event["log"] == self.origin, "it belongs to another journal")
        expect(seq == length or (seq > length and not self.is_dense), f"number {length} of run {run} is missing")
        expect(seq != length or event["prev"] == before, f"it does not name the event before it in run {run}")
        self.runs[run] = (seq + 1, hash_of(LEAF, body).hex())
        if "facts" in event:
            self.learn(index, event)
        for name, (salt, value) in values.items():
            message = b"indelible/commit/v1\0" + salt + len(name).to_bytes(2, "big") + name.encode() + value
            expect(sha256(message).hexdigest() == commits.get(name), f"its {name} is not what it committed to")
        self.events, self.present = self.events + 1, self.present + len(values)
        if len(values) < len(commits):
            self.lacking += len(commits) - len(values)
            self.absent[run, seq] = commits.keys() - values.keys()

    def learn(self, index, event):
        kind, facts, is_own = event["type"], event["facts"], event["run"] == "indelible:journal"
        try:
            if kind == "payload_erased":
                for one in facts["erased"]:
                    self.named += len(one["fields"])
                    self.absent.get((event["run"], one["seq"]), set()).difference_update(one["fields"])
            elif is_own and kind == "key_rotated":
                old, new = Key(facts["old"]), Key(facts["new"])
                message = f"indelible/rotate/v1\0{old.vkey}\n{new.vkey}".encode()
                for key, word in ((old, "old"), (new, "new")):
                    is_signed = key.verifies(base64(facts[f"{word}_signature"], "a signature"), message)
                    expect(is_signed and key.name == self.origin, f"the {word} key did not sign this rotation")
                expect(not self.rotations or self.rotations[-1][2].raw == old.raw, "it rotates another key")
                self.rotations.append((index, old, new))
            elif is_own and kind == "key_revoked":
                raw, size = Key(facts["key"]).raw, min(facts["size"], 2**63)
                self.revoked[raw] = min(size, self.revoked.get(raw, size))
            elif is_own and kind == "log_continued":
                sizes = [min(one["size"], 2**63) for one in (facts, facts["lost"])]
                self.lost.append((*sizes, base64(facts["lost"]["root"], "the lost root")))
        except (KeyError, TypeError, AttributeError, ValueError):
            raise Told(1, f"a {kind} does not say what it should") from None

    def check_signed(self, head, pinned):
        """Trust begins at a pinned key; it follows rotations forward, and back from the newest head."""
        keys = pinned = head.followed(key for key in pinned if key.name == self.origin)
        if self.rotations:
            later = [new for index, _, new in self.rotations if index < head.size]
            keys = head.followed([later[-1] if later else self.rotations[0][1]])
            known = {key.raw for _, old, new in self.rotations for key in (old, new, *keys)}
            keys = keys if any(key.raw in known for key in pinned) else []
        signers = {key.vkey: key for key in (*pinned, *keys) if head.signed_by(key)}
        good = [key for key in keys if key.vkey in signers and head.size <= self.revoked.get(key.raw, head.size)]
        expect(good and head.origin == self.origin, f"{head.name} is not signed by a key you pinned")

    def check_older(self, head, newest, roots, is_pinned):
        """Checks that the journal begins with a head; one of a history that was declared lost is let pass."""
        is_same = head.size <= newest.size and roots.get(head.size, head.root) == head.root
        is_lost = any(kept < head.size < size or root == head.root for kept, size, root in self.lost)
        expect(head.origin == newest.origin, f"{head.name} is a head of another journal")
        is_untold = (not is_same and is_lost) or (head.size not in roots and head.size <= newest.size)
        expect(not (is_pinned and is_untold), f"{head.name}: this cannot show that it continues that head", 2)
        expect(is_same or is_lost, f"{head.name}: the journal does not begin with it")


# ── the bundle, unpacked ─────────────────────────────────────────────────────────────────────────────────────────────
class Bundle:
    def __init__(self, path):
        self.path, found = Path(path), [*Path(path).rglob("*")]
        expect(not any(one.is_symlink() for one in found), "there are links")
        self.names = {one.relative_to(self.path).as_posix() for one in found if not one.is_dir()}

    def read(self, name):
        expect(name in self.names, f"{name} is missing")
        return (self.path / name).read_bytes()

    def values(self):
        """Gives disclosed values by entry and field."""
        found, before = {}, (-1, "")
        shape = r'\{"field":"([a-z_]+)","index":(0|[1-9][0-9]{0,18}),"salt":"([0-9a-f]{64})","value":"([^"]*)"\}\n'
        content = self.read("payloads.ndjson") if "payloads.ndjson" in self.names else b""
        for line in content.decode("ascii", "replace").splitlines(keepends=True):
            match = re.fullmatch(shape, line)
            expect(match and (int(match[2]), match[1]) > before, "payloads.ndjson: a line is no value in its order")
            before = (int(match[2]), match[1])
            found.setdefault(before[0], {})[match[1]] = (bytes.fromhex(match[3]), base64(match[4], "a value"))
        return found

    def check_names(self, kind, size):
        expected = {"manifest.json", "checkpoint", "README.txt", "verify.py"}
        if kind == "journal":
            given = sum(name.startswith("tile/entries/") for name in self.names)
            expect(given == -(-size // 256), "files of entries are missing, or there are too many")
            for level, number, width in tiles_of(size):
                expected |= {tile_name(kind, number, width) for kind in ((level,) if level else (0, "entries"))}
        more = r"heads/(0|[1-9]\d{0,18})" if kind == "journal" else r"receipts/(0|[1-9]\d{0,18})\.tlog-proof"
        for name in sorted(expected ^ self.names - {"payloads.ndjson", "signatures.ndjson"}):
            expect(name not in expected, f"{name} is missing")
            expect(re.fullmatch(more, name, re.ASCII), f"{name} does not belong to a bundle of kind {kind}")

    def entries(self, newest, tree):
        """Gives all entries of a whole journal, and compares every tile with what they give."""
        rows = {}
        for level, number, width in tiles_of(newest.size):
            row, place = b"", 0
            packed = self.read(tile_name("entries", number, width)) if level == 0 else b""
            while place < len(packed):
                start = place + 2
                place = start + int.from_bytes(packed[place:start], "big")
                expect(place <= len(packed), f"entry {tree.size}: the entries are cut short")
                row += hash_of(LEAF, packed[start:place])
                tree.add(row[-32:])
                yield tree.size - 1, packed[start:place]
            if level:
                row = b"".join(fold(rows[level - 1, number * 256 + place]) for place in range(width))
            rows[level, number] = row
            name = tile_name(level, number, width)
            expect(self.read(name) == row, f"{name} is not what the entries from {number * 256 ** (level + 1)} on give")
        expect(tree.roots.get(newest.size) == newest.root, "the entries do not lead to the signed root")

    def proven(self, newest, is_dense):
        """Gives the entries of a part of a journal, each with its proof."""
        numbers = sorted(int(name[9:-11]) for name in self.names if name.startswith("receipts/"))
        for place, index in enumerate(numbers):
            expect(is_dense or index == numbers[0] + place, f"an entry before {index} is missing")
            above, _, head = self.read(f"receipts/{index}.tlog-proof").decode("utf-8", "replace").partition("\n\n")
            match = re.fullmatch(rf"c2sp\.org/tlog-proof@v1\nextra (\S+)\nindex {index}((?:\n\S+)*)", above)
            is_right = match and index < newest.size and head.encode() == newest.content
            expect(is_right, f"entry {index}: its receipt is not about it, or leads to another head")
            body, proof = base64(match[1], "an entry"), [base64(one, "a hash") for one in match[2].split("\n")[1:]]
            is_proven = root_by_proof(hash_of(LEAF, body), index, newest.size, proof) == newest.root
            expect(is_proven and all(len(one) == 32 for one in proof), f"entry {index}: its proof fails")
            yield index, body


def check_manifest(said, newest, found, indexes):
    """Compares what the bundle says about itself with what is in it."""
    truth = {"format": "indelible/bundle/v1", "origin": newest.origin, "size": newest.size, "events": found.events}
    truth |= {"root": b64encode(newest.root).decode(), "payloads": found.present, "withheld": said["withheld"]}
    truth |= {"first": indexes[0], "last": indexes[-1], "run": min(found.runs) if said["kind"] == "run" else None}
    for name, value in truth.items():
        is_same = said[name] == value and type(said[name]) is type(value)
        expect(is_same, f"manifest.json says {said[name]!r} about {name}, and it is {value!r}")
    is_known = said.keys() == truth.keys() | {"kind", "made_at", "keys", "indelible"}
    is_known = is_known and (said["kind"] in ("journal", "period") or (said["kind"], len(found.runs)) == ("run", 1))
    expect(is_known and type(said["withheld"]) is int, "manifest.json is no manifest")
    # What is absent was erased by an event or withheld by the exporter; only a whole journal has all such events.
    lost = found.lacking - said["withheld"]
    is_explained = lost <= found.named if said["withheld"] else not any(found.absent.values())
    is_explained = lost >= 0 and (is_explained or said["kind"] != "journal")
    expect(is_explained, "values are missing that nobody erased or withheld")


def verify(path, pinned, pinned_heads):
    """Raises `Told` at the first flaw; gives the newest head and what was found when everything holds."""
    bundle = Bundle(path)
    expect({"manifest.json", "checkpoint"} & bundle.names, f"{path} is no bundle", 2)
    try:
        said = json.loads(bundle.read("manifest.json"))
        bundle.check_names(said["kind"], int(said["size"]))
        newest = Head(bundle.read("checkpoint"), "checkpoint")
        expect(newest.size, "the journal has no entries", 2)
        is_whole, is_dense = said["kind"] == "journal", said["kind"] != "period"
        older = [Head(bundle.read(name), name) for name in bundle.names if name.startswith("heads/")]
        tree = Tree({newest.size, *(head.size for head in (*older, *pinned_heads))})
        found, values, indexes = Examination(newest.origin, is_dense), bundle.values(), []
        for index, body in bundle.entries(newest, tree) if is_whole else bundle.proven(newest, is_dense):
            indexes = [*indexes[:1], index]
            try:
                found.take(index, body, values.pop(index, {}))
            except Told as flaw:
                raise Told(1, f"entry {index}: {flaw.args[1]}") from None
        expect(indexes and not values, "payloads.ndjson holds values of entries that are not here, or no entry is here")
        check_manifest(said, newest, found, indexes)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as problem:
        raise Told(1, f"manifest.json is no manifest ({problem})") from None
    roots = tree.roots if is_whole else {newest.size: newest.root}
    for head in older:
        expect(head.name == f"heads/{head.size}", f"{head.name} is kept under another size than its own")
        found.check_older(head, newest, roots, is_pinned=False)
    expect(pinned, "no key was given: everything here fits together, but nobody knows who signed it", 2)
    for head in (*older, newest):
        found.check_signed(head, pinned)
    for head in pinned_heads:
        found.check_older(head, newest, roots, is_pinned=True)
    return newest, found, is_whole


def main():
    parser = argparse.ArgumentParser(description="Verifies a bundle of an Indelible journal, offline.")
    parser.add_argument("bundle", nargs="?", default=".")
    parser.add_argument("--key", action="append", default=[], help="a public key you got by another way; repeatable")
    parser.add_argument("--after", action="append", default=[], help="a file with a tree head you kept; repeatable")
    asked = parser.parse_args()
    try:
        keys, heads = [Key(key) for key in asked.key], [Head(Path(name).read_bytes(), name) for name in asked.after]
    except Told as problem:
        raise Told(2, problem.args[1]) from None
    newest, found, is_whole = verify(asked.bundle, keys, heads)
    ruled_out = ["edit", "insert", "reorder", "recompute", "re-sign", *(["delete"] if is_whole else [])]
    ruled_out += ["cut before the pinned head", "stolen key before the pinned head"] if heads and is_whole else []
    told = f"{found.events} events of {newest.origin}, {found.present} values, against the key you pinned\ndeclared: "
    told += f"{len(found.rotations)} rotations of keys, {len(found.lost)} continuations after a loss\nruled out: "
    raise Told(0, f"{told}{', '.join(ruled_out)}\nnot ruled out: everything else, see: indelible verify")


if __name__ == "__main__":
    try:
        main()
    except (Told, OSError) as end:
        code, told = end.args if isinstance(end, Told) else (2, str(end))
        told = ascii(told)[1:-1] if code else told  # no name in a bundle may move a terminal's cursor over the verdict
        sys.stdout.write(f"{('VERIFIED', 'TAMPERED', 'CANNOT TELL')[code]}: {told}\n")
        sys.exit(code)
