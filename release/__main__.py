"""`./run release [--key KEY.pem]`: wheel, sdist and a list of what they bring along, in dist/; signed, with a key."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from release import extras, provenance

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"

# What a wheel must have to be of use without Node, without the repository and without a network.
MUST_HOLD = (
    "indelible/py.typed",
    "indelible/policy.schema.json",
    "indelible/runs/packet.schema.json",
    "indelible/server/page/index.html",
    "indelible/server/page/assets/app.js",
    "indelible/stores/sqlite/queries.sql",
    "indelible/stores/postgres/queries.sql",
)


def build(into: Path, *, epoch: int) -> list[Path]:
    """Builds wheel and sdist; with the same sources and the same moment, the same bytes."""
    into.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(into)],
        cwd=ROOT,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return sorted(into.glob("indelible-*"))


def missing(wheel: Path) -> list[str]:
    """What is not in a wheel and has to be."""
    with zipfile.ZipFile(wheel) as held:
        names = set(held.namelist())
    return [name for name in MUST_HOLD if name not in names]


def bill_of_materials(into: Path) -> Path:
    """Lists what the core brings along, with hashes, as CycloneDX."""
    out = into / "indelible.cdx.json"
    tool = Path(sys.executable).with_name("cyclonedx-py")
    lock = ROOT / "requirements-core.lock"
    subprocess.run(
        [tool, "requirements", "--output-reproducible", "--pyproject", ROOT / "pyproject.toml", "-o", out, lock],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return out


def main() -> int:
    """Makes everything anew, and says where it is."""
    shutil.rmtree(DIST, ignore_errors=True)
    epoch = int(subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True))
    files = build(DIST, epoch=epoch)
    for wheel in DIST.glob("*.whl"):
        if lacking := missing(wheel):
            print(f"release: {wheel.name} lacks {', '.join(lacking)}", file=sys.stderr)
            return 1
    files.append(bill_of_materials(DIST))
    for file in files:
        print(f"{file.relative_to(ROOT)}  {file.stat().st_size:,} bytes")
    if "--key" not in sys.argv:
        print("Not signed. Make a key once: ./run release keygen KEY.pem; then: ./run release --key KEY.pem")
        return 0
    key = sys.argv[sys.argv.index("--key") + 1]
    with (DIST / "provenance.json").open("w") as out:
        words = [sys.executable, "-m", "release.provenance", "sign", key, *map(str, files)]
        if subprocess.run(words, cwd=ROOT, stdout=out, check=False).returncode:
            return 1
    print("dist/provenance.json says what was built from what, signed. Check: ./run release verify PUBLIC_KEY …")
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["keygen" | "sign" | "verify", *_]:
            sys.exit(provenance.main(sys.argv[1:]))
        case ["extras", *only]:
            sys.exit(extras.main(only))
        case _:
            sys.exit(main())
