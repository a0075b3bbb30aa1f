-- Effects, the runs' chains of events, and what the events commit to.
-- Every key begins with the tenant; a scope is usually a run id, so neighbours in time are neighbours on disk.

CREATE TABLE indelible_ledger (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE indelible_runs (
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    count  INTEGER NOT NULL,
    head   BLOB NOT NULL,
    PRIMARY KEY (tenant, run_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE indelible_effects (
    tenant      TEXT NOT NULL,
    scope       TEXT NOT NULL,
    key         BLOB NOT NULL,
    id          TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    tool        TEXT NOT NULL,
    side_effect TEXT NOT NULL,
    on_crash    TEXT NOT NULL,
    call_id     TEXT,
    digest      BLOB NOT NULL,
    status      TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    token_hash       BLOB NOT NULL,
    lease_until INTEGER,            -- microseconds since 1970, as all times here
    opened_seq  INTEGER NOT NULL,   -- the event that commits to the arguments
    detail_seq  INTEGER,            -- the event that commits to the result, error or reason
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, scope, key)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX indelible_effects_by_id ON indelible_effects (tenant, id);

CREATE TABLE indelible_events (
    tenant    TEXT NOT NULL,
    run_id    TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    effect_id TEXT,
    type      TEXT NOT NULL,
    hash      BLOB NOT NULL,
    body      BLOB NOT NULL,
    PRIMARY KEY (tenant, run_id, seq)
) STRICT, WITHOUT ROWID;

-- What events commit to, apart from them, so that it can be erased while the record still verifies.
CREATE TABLE indelible_payloads (
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    field  TEXT NOT NULL,
    salt   BLOB NOT NULL,
    value  BLOB NOT NULL,
    PRIMARY KEY (tenant, run_id, seq, field)
) STRICT, WITHOUT ROWID;

-- Events that the journal has not taken in yet; only appended to and emptied, so it needs no key.
CREATE TABLE indelible_pending (
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    hash   BLOB NOT NULL
) STRICT;
