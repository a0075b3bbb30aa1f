"""Makes the shells available to the tests of this folder."""

from tests.scenarios.fixtures import _scenario_database, clock, ledger, place, scenario_url, shell

__all__ = ["_scenario_database", "clock", "ledger", "place", "scenario_url", "shell"]
