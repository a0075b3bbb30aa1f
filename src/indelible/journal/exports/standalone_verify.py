"""Verifies a bundle of an Indelible journal. Needs Python 3.11 and `pip install cryptography`, nothing else.

    python verify.py --key 'name+0123abcd+…' [--after OLD_HEAD] [--deep] [BUNDLE]

BUNDLE is a folder, a .zip, an NDJSON export or a receipt; by default the folder you are in. Get the key from the
journal's owner by another way than the bundle; and this program too, if you trust nobody: one that came with a bundle
says what its maker wanted. It exits with 0 verified, 1 tampered, 2 cannot tell. It is made of the same source as
`indelible verify`, section by section below, and gives the same verdict.
"""

import argparse
import sys
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

try:
    import cryptography  # noqa: F401
except ImportError:  # with a traceback Python would end with 1, which means tampered
    sys.stdout.write("CANNOT TELL: this needs a package more; run: pip install cryptography\n")
    sys.exit(2)

MODULES: dict[str, str] = {}
"""Holds the source of each module that is packed in here."""


class Packed(MetaPathFinder, SourceLoader):  # type: ignore[misc]
    """Finds modules in this file, before any that is installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        is_package = any(module.startswith(f"{name}.") for module in MODULES)
        if not is_package and name not in MODULES:
            return None
        return ModuleSpec(name, self, origin=self.get_filename(name), is_package=is_package)

    def get_filename(self, fullname: str) -> str:
        return f"{__file__}:{fullname}"

    def get_data(self, path: str) -> bytes:
        return MODULES.get(path.removeprefix(f"{__file__}:"), "").encode()


# <packed modules>
# </packed modules>
if MODULES:
    sys.meta_path.insert(0, Packed())

from indelible.core.verifying.findings import ATTACKS, Report  # noqa: E402
from indelible.errors import BadCall  # noqa: E402
from indelible.journal.evidence.verification import verify  # noqa: E402


def told(report: Report) -> str:
    """Return what is printed of a report."""
    if not report.is_verified:
        return ascii(report.why)[1:-1]  # no name in a bundle may move a terminal's cursor over the verdict
    ruled_out = [ATTACKS[name].words for name, is_out in report.ruled_out.items() if is_out]
    open_ = [ATTACKS[name].words for name, is_out in report.ruled_out.items() if not is_out]
    counts, values = report.counts, report.counts.payloads
    lines = [f"{counts.events} events of {report.origin}, against the key you pinned"]
    if values is not None:
        lines.append(f"values: {values.present} present, {values.erased} erased, {values.withheld} withheld")
    lines += [f"ruled out: {', '.join(ruled_out)}", f"not ruled out: {', '.join(open_)}"]
    lines += [*report.rotations, *report.continuations, *report.remarks]
    return "\n".join(ascii(line)[1:-1] for line in lines)


def main() -> int:
    """Verify what the command line names; return the exit code."""
    parser = argparse.ArgumentParser(description="Verifies a bundle of an Indelible journal, offline.")
    parser.add_argument("bundle", nargs="?", default=".")
    parser.add_argument("--key", action="append", default=[], help="a public key you got by another way; repeatable")
    parser.add_argument("--after", action="append", default=[], help="a file with a tree head you kept; repeatable")
    parser.add_argument("--deep", action="store_true", help="check the signature that a writer put on each event")
    asked = parser.parse_args()
    try:
        kept = [Path(name).read_bytes() for name in asked.after]
        report = verify(asked.bundle, asked.key, after=kept, deep=asked.deep)
        code, words = report.exit_code, told(report)
    except (BadCall, OSError) as problem:
        code, words = 2, ascii(str(problem))[1:-1]
    sys.stdout.write(f"{('VERIFIED', 'TAMPERED', 'CANNOT TELL')[code]}: {words}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
