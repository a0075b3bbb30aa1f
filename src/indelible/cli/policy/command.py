"""`indelible policy`: look a policy over, ask it about calls, try it on the record, and put it in force."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from indelible.cli.moments import moment_before
from indelible.cli.opening import about_ledger, open_existing, open_to_read, where
from indelible.cli.options import InOrder, by_option, reason_option
from indelible.cli.policy.words import exact_json, explanation_json, say_explanation
from indelible.cli.show import count, say_json, visible
from indelible.core.effects.calls import SIDE_EFFECTS
from indelible.errors import BadCall, BadPolicy

if TYPE_CHECKING:
    from indelible import Ledger
    from indelible.core.policy.policy import Asked, Policy
    from indelible.core.policy.reading import Problem
    from indelible.policy_files import PolicyFile

FILE = click.Path(dir_okay=False, path_type=Path)
NO_POLICY = "no policy is kept in this ledger; put one in force with: indelible policy apply FILE"


@click.group(cls=InOrder)
def policy() -> None:
    """Write rules, try them out, and put them in force.

    A policy is a YAML or JSON file. Each call of a tool is allowed, asked about or refused by the first rule that
    applies. What goes wrong refuses.
    """


# Looking it over


@policy.command()
@click.argument("file", type=FILE)
@click.option("--strict", is_flag=True, help="Let warnings count as problems.")
@about_ledger
def lint(file: Path, strict: bool) -> int:
    """Find what is wrong with a policy, and what is odd.

    Problems keep a policy from being used; warnings are about rules that never apply, questions that nobody could
    answer, and the like. Exits with 1 if there is a problem, or with --strict a warning.
    """
    from indelible.core.policy.lint import doubts_about
    from indelible.core.policy.policy import Policy
    from indelible.policy_files import problems_in, read_file

    found = read_file(file)
    problems = problems_in(found)
    made = None if problems else Policy.of(found.content)
    warnings = [] if made is None else doubts_about(made)
    if where().is_json:
        say_json(
            {
                "file": str(file),
                "version": None if made is None else made.version,
                "problems": [_problem_json(found, problem) for problem in problems],
                "warnings": [_problem_json(found, problem) for problem in warnings],
            }
        )
    else:
        _say_lint(found, problems, warnings, made)
    return 1 if problems or (strict and warnings) else 0


def _problem_json(file: PolicyFile, problem: Problem) -> dict[str, Any]:
    line = file.line_of(problem.place)
    return {
        "place": list(problem.place),
        "line": None if line is None else line[0],
        "column": None if line is None else line[1],
        "message": problem.message,
    }


def _say_lint(file: PolicyFile, problems: list[Problem], warnings: list[Problem], made: Policy | None) -> None:
    for problem in problems:
        print(visible(file.told(problem)))
    for problem in warnings:
        print("warning: " + visible(file.told(problem)))
    if made is None:
        print(f"{count(len(problems), 'problem')}: this policy cannot be used.")
        return
    parts = made.parts
    said = f"{count(len(parts.rules), 'rule')}, {count(len(parts.budgets), 'budget')}"
    print(f"This policy can be used: {said}, {count(len(warnings), 'warning')}. Version {made.version}.")


# Asking it


@policy.command()
@click.argument("file", type=FILE, required=False)
@click.option("--stored", is_flag=True, help="Ask the policy that is in force, instead of a file.")
@click.option("--tool", required=True, help="The tool that is called.")
@click.option("--args", "args_json", default="{}", show_default=True, metavar="JSON", help="With which arguments.")
@click.option(
    "--side-effect",
    type=click.Choice(SIDE_EFFECTS),
    default="external_mutation",
    show_default=True,
    help="Its class, as the caller says it.",
)
@click.option("--agent", default="agent", show_default=True, help="Which agent calls it.")
@click.option("--principal", help="For whom the agent acts.")
@click.option("--run", "run_id", default="unnamed", show_default=True, help="In which run.")
@click.option("--environment", default="", help="In which environment.")
@click.option("--schema", default="", help="The hash of the tool's schema.")
@click.option(
    "--allowed-tool", "allowed", multiple=True, help="A tool that the run may use, if it is limited; may be repeated."
)
@about_ledger
def explain(file: Path | None, stored: bool, tool: str, args_json: str, allowed: tuple[str, ...], **words: Any) -> None:
    """Tell what a policy says of a call, rule by rule.

    Nothing is called and nothing is recorded.
    """
    from indelible.core.policy.explaining import explain as look

    if (file is None) != stored:
        raise click.UsageError("name a FILE, or --stored for the policy in force", click.get_current_context())
    place = where()
    if stored:
        with open_to_read(place) as ledger:
            judging = stored_policy(ledger)
    else:
        assert file is not None
        judging = policy_in(file)
    explanation = look(judging, _asked(place.tenant, tool, args_json, allowed, words))
    if place.is_json:
        say_json(explanation_json(explanation))
    else:
        say_explanation(explanation)


def policy_in(file: Path) -> Policy:
    """Reads the policy in a file."""
    from indelible.policy_files import load_policy

    return load_policy(file)


def stored_policy(ledger: Ledger) -> Policy:
    """Gives the policy that is kept in a ledger."""
    from indelible.core.policy.policy import policy_of

    kept = ledger.policy()
    if kept is None:
        raise BadPolicy(NO_POLICY)
    return policy_of(kept[0])


def _asked(tenant: str, tool: str, args_json: str, allowed: tuple[str, ...], words: Mapping[str, Any]) -> Asked:
    from indelible import ToolCall
    from indelible.core.policy.policy import Asked
    from indelible.core.values.canonical import decode, encode, parse_strict

    try:
        given = parse_strict(args_json)
    except BadCall as problem:
        raise BadCall(f"--args: {problem}. Write it as in --args '{{\"amount\": 5}}'") from problem
    if not isinstance(given, dict):
        raise BadCall("--args has to be an object, as in --args '{\"amount\": 5}'")
    ToolCall(tool=tool, args=given, run_id=words["run_id"])
    args: Any = decode(encode(given, root="args"))
    limited = frozenset(allowed) if allowed else None
    return Asked(tenant=tenant, tool=tool, args=args, allowed_tools=limited, **words)


# Trying it on the record


@policy.command()
@click.argument("file", metavar="NEW", type=FILE)
@click.option(
    "--since",
    default="30d",
    show_default=True,
    metavar="WHEN",
    help="Calls from then on: 30d for 30 days ago, or 2030-01-31.",
)
@click.option("--environment", default="", help="The environment to assume; it is not on the record.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    default=1000,
    show_default=True,
    help="Show at most so many changes.",
)
@click.option("--fail-on-change", is_flag=True, help="Exit with 1 if any decision would change.")
@about_ledger
def test(file: Path, since: str, environment: str, limit: int, fail_on_change: bool) -> int:
    """Replay recorded calls: which decisions would change?

    Each call on record is judged by the NEW policy and compared with what was decided then. Nothing is called. Budgets
    are not replayed, and a call whose arguments were erased or cannot be opened is counted as one nobody can tell of.
    """
    from indelible.cli.policy.replay import replay, replay_json, say_replay

    place = where()
    new, begin = policy_in(file), moment_before(since, "--since")
    with open_to_read(place) as ledger:
        found = replay(ledger, new, begin, environment, limit)
    if place.is_json:
        say_json(replay_json(found, new.version))
    else:
        say_replay(found, new.version)
    return 1 if fail_on_change and found.changes_by_kind else 0


# Putting it in force


@policy.command()
@click.argument("file", type=FILE)
@reason_option("applied")
@by_option
@about_ledger
def apply(file: Path, reason: str, by: str) -> None:
    """Put a policy in force for every process of a tenant.

    It is kept in the ledger, and that it was applied is on the record. Try it first: indelible policy test FILE.
    """
    from indelible.core.policy.lint import doubts_about
    from indelible.core.policy.policy import policy_of
    from indelible.policy_files import load_content

    place = where()
    content = load_content(file)
    warnings = [str(doubt) for doubt in doubts_about(policy_of(content))]
    with open_existing(place) as ledger:
        before = ledger.policy()
        version = ledger.apply_policy(content, by=by, reason=reason)
    was = None if before is None else before[1]
    if place.is_json:
        say_json({"version": version, "was": was, "by": place.doer(by), "warnings": warnings})
        return
    for warning in warnings:
        print("warning: " + visible(warning))
    told = "the first one" if was is None else "the same as before" if was == version else f"instead of {was}"
    print(f"Policy {version} is in force for tenant {visible(place.tenant)}, {told}. Applied {place.by_whom(by)}.")


@policy.command()
@about_ledger
def show() -> None:
    """Print the policy in force, who applied it and when.

    What is printed is JSON, which is YAML too: it can be applied again.
    """
    place = where()
    with open_to_read(place) as ledger:
        kept = ledger.policy()
        if kept is None:
            raise BadPolicy(NO_POLICY)
        applied = _applied(ledger)
    content, version = kept
    if place.is_json:
        print(exact_json({"version": version, **applied, "content": content}))
        return
    said = (
        f"applied by {applied['by']} at {applied['at']}" if applied else "and the record does not tell who applied it"
    )
    print(f"# version {version}, {visible(said)}")
    print(exact_json(content))


def _applied(ledger: Ledger) -> dict[str, str]:
    """Reads from the record who applied the policy, and when."""
    from indelible.core.paging import event_of, read_sheet
    from indelible.core.sheets import POLICY_REF

    store = ledger._engine.store
    sheet = read_sheet(store, ledger.tenant, POLICY_REF)
    event = None if sheet is None else event_of(store, ledger.tenant, sheet)
    if event is None:
        return {}
    told = event.read()
    return {"by": told["actor"]["id"], "at": told["at"]}
