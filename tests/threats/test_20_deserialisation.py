"""Threat 20: what is read from a store, a wire or a file becomes code.

Payloads are JSON and stay data. What could turn text or bytes into code is in no module of ours but where it is named
here, with its reason; ruff's own rules about it are on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import indelible

ROOT = Path(indelible.__file__).parent
MODULES = {
    *(
        "pickle",
        "_pickle",
        "cPickle",
        "marshal",
        "shelve",
        "dill",
        "cloudpickle",
        "joblib",
        "jsonpickle",
        "dbm",
        "copyreg",
    ),
    *("code", "codeop", "imp", "runpy", "xml", "xmlrpc", "lxml", "plistlib", "zipimport", "ctypes", "cffi"),
}
"""Run code for whoever writes what they read, or may."""
CALLS = {
    *("eval", "exec", "compile", "__import__", "execfile", "import_module", "exec_module", "spec_from_file_location"),
    *("yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.full_load_all", "yaml.unsafe_load_all"),
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "logging.config.fileConfig"),
    *("numpy.load", "torch.load", "pandas.read_pickle", "importlib.reload", "setattr", "globals", "locals"),
}
# Names of ours that say which code to run: from the configuration of whoever runs the program, never from a payload.
NAMED = {
    "__init__.py": {"import_module"},  # public names of ours, from a table
    "notify/__init__.py": {"import_module"},  # the same
    "cli/root.py": {"import_module"},  # commands of ours, from a table
    "cli/programs.py": {"import_module"},  # the function that whoever types the command names
    "server/gateway_tools.py": {"import_module"},  # the tools of whoever runs the server, from their file
    "testing/adapters/rig.py": {"import_module"},  # our own cases, from a table
    "integrations/adk_sent.py": {"import_module"},  # two modules of ADK's, by names that stand there
    "integrations/instrument.py": {"import_module"},  # adapters of ours, from a table
    "integrations/everywhere/reach.py": {"setattr"},  # puts a gate of ours into a framework, and takes it out again
    "integrations/crewai_turns.py": {"setattr"},  # one mark of CrewAI on functions of ours
    "integrations/openai_agents.py": {"setattr"},  # only fields of a copy of the SDK's own tool
    "integrations/adk.py": {"setattr"},  # only fields of ADK's own model, by which what was recorded is read
    "stores/sqlite/transaction.py": {"ctypes"},  # keeps what a forked child inherits from being closed there
    "stores/sqlite/alarm.py": {"ctypes"},  # the system's own way to be told of a change to a file
}


def sources() -> Iterator[tuple[str, str]]:
    for file in sorted(ROOT.rglob("*.py")):
        yield str(file.relative_to(ROOT)), file.read_text("utf-8")


def spelled(function: ast.expr) -> set[str]:
    """Gives a call's name as it is written, and its last word."""
    whole = ast.unparse(function)
    return {whole, whole.rpartition(".")[2]} if not whole.startswith("re.") else set()


def found_in(tree: ast.Module) -> set[str]:
    """Names what of the lists above a module uses."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.partition(".")[0] in MODULES}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES and not node.level:
            found.add(str(node.module))
        elif isinstance(node, ast.Call):
            found |= spelled(node.func) & CALLS
            if any(word.arg == "shell" and ast.unparse(word.value) != "False" for word in node.keywords):
                found.add("shell=True")
    return found


def test_nothing_turns_what_is_read_into_code() -> None:
    used = {name: found for name, text in sources() if (found := found_in(ast.parse(text)))}
    assert used == NAMED


def test_the_linter_sees_to_it_too() -> None:
    settings = (ROOT.parents[1] / "pyproject.toml").read_text("utf-8")
    for name in ("pickle", "marshal", "shelve", "dill", "cloudpickle"):
        assert f'"{name}".msg' in settings
    for rule in ("S301", "S302", "S307", "S506", "S102", "S602", "S605"):
        assert rule not in settings, "and is not switched off"
        assert not [name for name, text in sources() if rule in text], f"{rule} is excused"


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "import xml.etree.ElementTree as e",
        "eval(text)",
        "builtins.exec(text)",
        "yaml.load(text)",
        "importlib.import_module(name)",
        "subprocess.run(text, shell=True)",
        "__import__(name)",
    ],
)
def test_the_list_finds_what_it_is_for(code: str) -> None:
    assert found_in(ast.parse(code))


def test_what_is_harmless_is_not_found() -> None:
    assert not found_in(ast.parse("import json\nre.compile(x)\nyaml.safe_load(text)\nsubprocess.run([a], shell=False)"))
