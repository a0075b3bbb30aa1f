"""The rules by which a provider lets people in, kept in the ledger, so that every program that uses it knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indelible.core.effects.effect import SYSTEM
from indelible.core.people.person import PEOPLE_RUN, Person
from indelible.core.people.standing import Standing, person_id
from indelible.core.people.vouching import PROVIDER_REF, ProviderRules, provider_sheet, read_provider
from indelible.core.ports import Store
from indelible.core.sheets import PROVIDER
from indelible.errors import StoreUnavailable
from indelible.server.signin.people import People
from indelible.server.signin.register import Register

if TYPE_CHECKING:
    from indelible.server.signin.oidc import Provider

_TRIES = 8


class Providers(Register[ProviderRules]):
    """Knows the rules of one tenant's provider; each change is an event."""

    kind = PROVIDER
    run_id = PEOPLE_RUN
    read = staticmethod(read_provider)
    sheet_of = staticmethod(provider_sheet)

    def rules(self) -> ProviderRules | None:
        """Return the rules in force, or None."""
        return self.find(PROVIDER_REF.id)

    def put_in_force(self, rules: ProviderRules) -> bool:
        """Put rules in force; say whether others were until now."""
        for _ in range(_TRIES):
            following = rules.following(self.rules(), self._version(PROVIDER_REF.id))
            if following is None:
                return False
            if self._tell("provider_changed", {"id": PROVIDER_REF.id}, following, SYSTEM):
                return True
        raise StoreUnavailable("the provider's rules are changed by too many servers at once; start this one again")

    def standing(self, person: Person) -> Standing:
        """Return how a person stands under the rules in force."""
        return person.standing(self.rules_for(person))

    def rules_for(self, person: Person) -> ProviderRules | None:
        """Return the rules in force if the person rests on them; the ledger's own people rest on none."""
        return None if person.vouched is None else self.rules()


def put_in_force(store: Store, tenant: str, provider: Provider | None) -> bool:
    """Keep the rules that a server was started with; without a provider, those that were in force end."""
    rules = ProviderRules(issuer=None) if provider is None else provider.rules
    return Providers(store, tenant).put_in_force(rules)


def standing_of(store: Store, tenant: str, name: str | None) -> Standing | None:
    """Return how the person with this name stands; None for a name that the server does not know."""
    person = None if name is None else People(store, tenant).find(person_id(name))
    return None if person is None else Providers(store, tenant).standing(person)
