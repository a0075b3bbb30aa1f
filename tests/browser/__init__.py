"""The dashboard and the pages in a real Chromium, against a real server on each store.

    ./run test tests/browser                         # needs chromium (Debian: apt install chromium)
    ./run python -m tests.browser                    # the same, and says what is missing instead of skipping
    ./run python -m tests.browser --pictures         # draws the pictures of the manual again

Where there is no Chromium these tests are skipped, unless INDELIBLE_BROWSER=required, as in CI.

A test asks for `story`: a tenant of its own on a server that lives as long as the tests of this folder. It runs once on
SQLite and once on PostgreSQL, and asserts what people see *and* what the ledger holds:

    def test_one_person_approves(story: Story) -> None:
        asked = story.ask("stripe.refund", amount=4200)            # by the library, as a program would
        page = story.review("ana", "approver")                     # in a browser of her own, the newest request
        page.get_by_role("button", name="Approve").click()
        ...
        assert story.ledger.get_approval(asked.approval_id).status == "approved"

`story.ledger` is a `Ledger` on the same store: seed and read with its public verbs, and call `story.ledger.seal()`
where the page shall see at once what is in the journal. `story.sign_in` may be called for any number of people; words
that it does not know go to playwright's `new_context`, as in `color_scheme="dark"`. A test that needs no tenant asks
for `watch`, whose `open` opens a page in a browser of its own.

After each test it is asserted, for every page that was opened, that nothing was asked of anybody but the server, and
that no script stumbled: no exception, no violation of the content policy. A test whose pages may trip says so
(`story.watch.may_trip = True`) and looks at `story.watch.troubles` itself; one that goes elsewhere names it:
`story.watch.homes.append(…)`.
"""
