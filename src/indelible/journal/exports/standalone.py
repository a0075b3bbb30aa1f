"""Makes the verifier that travels with a bundle: one readable file, packed from the sources of the one that we have.

Each module stands in it as its own text, with what the verifier uses of it and nothing else, so it says what
`indelible verify` says. It needs Python and `cryptography`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

_MAIN = "indelible.journal.exports.standalone_verify"
_PACKED = ("indelible", "rfc8785")
_LEFT_OUT = {
    "indelible.journal.evidence.live": 'class LiveEvidence:\n    """A live ledger is verified by the command alone."""'
}
"""Names modules that the file does without, and what stands there instead."""
_ABOVE, _BELOW = "# <packed modules>\n", "# </packed modules>\n"


@cache
def standalone_verifier() -> bytes:
    """Return the text of the verifier that travels with a bundle."""
    main = _source(_MAIN)
    head, _, rest = main.partition(_ABOVE)
    _, _, tail = rest.partition(_BELOW)
    packing = _Packing()
    packing.need_imports(ast.parse(tail))
    return (head + "".join(packing.sections()) + tail).encode()


def _source(module: str) -> str:
    if module in _LEFT_OUT:
        return _LEFT_OUT[module]
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None, "it has a file"
    if module.startswith("indelible."):  # also where the package is no folder
        package, _, name = module.rpartition(".")
        return resources.files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")
    return Path(spec.origin).read_text(encoding="utf-8")


class _Packing:
    """Finds out what is used of which module."""

    def __init__(self) -> None:
        self._modules: dict[str, _Module] = {}

    def need_imports(self, tree: ast.AST) -> None:
        """Take in what a piece of code imports."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in _PACKED:
                self.need(node.module, [alias.name for alias in node.names])

    def need(self, name: str, names: list[str]) -> None:
        """Take in that names of a module are used; a name may be a module itself."""
        if name not in self._modules:
            self._modules[name] = _Module(name)
            for statement in self._modules[name].always():
                self._use(self._modules[name], statement)
        for one in names:
            self._need_one(self._modules[name], one)

    def _need_one(self, module: _Module, name: str) -> None:
        for known in [one for one in module.imported if one == name or one.startswith(f"{name}.")]:
            module.used.add(known)
            source, original = module.imported[known]
            if original is not None and source.partition(".")[0] in _PACKED:
                self.need(source, [original])
        for statement in module.defining(name):
            if statement not in module.kept:
                self._use(module, statement)

    def _use(self, module: _Module, statement: ast.stmt) -> None:
        module.kept.append(statement)
        self.need_imports(statement)
        for name in _names_in(statement):
            self._need_one(module, name)
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _PACKED:
                self.need(node.value.id, [node.attr])

    def sections(self) -> Iterator[str]:
        """Give each module as a section of the file."""
        for name in sorted(self._modules):
            text = self._modules[name].text()
            assert "'''" not in text, f"{name} would end its own section"
            yield f"\n# {'─' * 20} {name} {'─' * max(1, 98 - len(name))}\nMODULES[{name!r}] = r'''\n{text}'''\n"


class _Module:
    """Is one module: its statements, and which of them are kept."""

    def __init__(self, name: str) -> None:
        source = _source(name)
        self._lines = source.splitlines(keepends=True)
        self._statements = ast.parse(source).body
        self.kept: list[ast.stmt] = []
        self.used: set[str] = set()
        self.imported: dict[str, tuple[str, str | None]] = {}
        """Maps names to the modules they come from, and their names there; None for a module itself."""
        package = name if name == "rfc8785" else name.rpartition(".")[0]
        for node in self._statements:
            if isinstance(node, ast.ImportFrom):
                source = f"{package}.{node.module}" if node.level else str(node.module)
                self.imported |= {alias.asname or alias.name: (source, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                self.imported |= {alias.asname or alias.name: (alias.name, None) for alias in node.names}

    def always(self) -> Iterator[ast.stmt]:
        """Give the statements that do something by themselves."""
        for node in self._statements:
            is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign)
            is_other = isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)
            if not is_definition and not is_other and not _is_for_types(node):
                yield node

    def defining(self, name: str) -> Iterator[ast.stmt]:
        """Give the statements that say what a name is."""
        for node in self._statements:
            if name in _defined_by(node):
                yield node

    def text(self) -> str:
        """Return what is kept, as it is written."""
        first = self._statements[0]
        about = self._written(first) if _is_text(first) else ""
        parts = [about, "\nfrom __future__ import annotations\n\n", *self._imports()]
        for place, node in enumerate(self._statements):
            if node in self.kept:
                after = self._statements[place + 1 : place + 2]
                parts.append(self._written(node))
                parts += [self._written(one) for one in after if _is_text(one)]
        return "".join(parts)

    def _imports(self) -> Iterator[str]:
        found: dict[str, list[str]] = {}
        for name in sorted(self.used):
            source, original = self.imported[name]
            if original is None:
                yield f"import {source}\n"
            elif source != "__future__":
                found.setdefault(source, []).append(original if original == name else f"{original} as {name}")
        for source, names in sorted(found.items()):
            yield f"from {source} import {', '.join(names)}\n"

    def _written(self, node: ast.stmt) -> str:
        """Return a statement with the comments right above it."""
        decorators = getattr(node, "decorator_list", [])
        start = min([node.lineno, *(one.lineno for one in decorators)]) - 1
        assert node.end_lineno is not None
        end = node.end_lineno
        while start and self._lines[start - 1].startswith("#"):
            start -= 1
        gap = "\n\n" if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
        return gap + "".join(self._lines[start:end])


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _defined_by(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _names_in(node: ast.AST) -> Iterator[str]:
    """Give every name that a piece of code uses when it runs: annotations are never looked at."""
    if isinstance(node, ast.Name):
        yield node.id
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _names_in(child)


if __name__ == "__main__":
    sys.stdout.buffer.write(standalone_verifier())
