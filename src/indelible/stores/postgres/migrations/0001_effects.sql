-- Effects, the runs' chains of events, and what the events commit to.
-- Every key begins with the tenant; a scope is usually a run id, so neighbours in time are neighbours on disk.

CREATE TABLE indelible_ledger (
    only_row   integer PRIMARY KEY CHECK (only_row = 1),
    name       text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL
);

INSERT INTO indelible_ledger (only_row, name, created_at)
VALUES (1, 'ledger-' || left(replace(gen_random_uuid()::text, '-', ''), 12), clock_timestamp());

-- Every event moves the head of its run, so a page is left half empty for the new versions of its rows.
CREATE TABLE indelible_runs (
    tenant text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    count  bigint NOT NULL,
    head   bytea NOT NULL,
    PRIMARY KEY (tenant, run_id)
) WITH (fillfactor = 50);

-- No column that a move changes may be indexed: then a move touches one page of this table and no index.
CREATE TABLE indelible_effects (
    tenant      text COLLATE "C" NOT NULL,
    scope       text COLLATE "C" NOT NULL,
    key         bytea NOT NULL,
    id          text COLLATE "C" NOT NULL,
    run_id      text COLLATE "C" NOT NULL,
    tool        text COLLATE "C" NOT NULL,
    side_effect text COLLATE "C" NOT NULL,
    on_crash    text COLLATE "C" NOT NULL,
    call_id     text COLLATE "C",
    digest      bytea NOT NULL,
    status      text COLLATE "C" NOT NULL,
    attempt     bigint NOT NULL,
    version     bigint NOT NULL,
    token_hash  bytea NOT NULL,
    lease_until timestamptz,       -- by the clock of the database
    opened_seq  bigint NOT NULL,   -- the event that commits to the arguments
    detail_seq  bigint,            -- the event that commits to the result, error or reason
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    awaited     boolean NOT NULL DEFAULT false,  -- does another process wait for its next move? Then that is told
    PRIMARY KEY (tenant, scope, key)
) WITH (fillfactor = 80);

-- POSIX orders as C does, but a search by tenant, scope and key cannot take this index by mistake. On a table that it
-- has no statistics of, the planner would, and then read all effects of the tenant for each call.
CREATE UNIQUE INDEX indelible_effects_by_id ON indelible_effects (tenant COLLATE "POSIX", id);

CREATE TABLE indelible_events (
    tenant    text COLLATE "C" NOT NULL,
    run_id    text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    effect_id text COLLATE "C",
    type      text COLLATE "C" NOT NULL,
    hash      bytea NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (tenant, run_id, seq)
);

-- What events commit to, apart from them, so that it can be erased while the record still verifies.
CREATE TABLE indelible_payloads (
    tenant text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    field  text COLLATE "C" NOT NULL,
    salt   bytea NOT NULL,
    value  bytea NOT NULL,
    PRIMARY KEY (tenant, run_id, seq, field)
);

-- Not compressed: that takes the server longer than all the rest of a call (20 KB of arguments: 0.8 ms against 0.35).
ALTER TABLE indelible_payloads ALTER COLUMN value SET STORAGE EXTERNAL;

-- Events that the journal has not taken in yet; only appended to and emptied, so it needs no key.
CREATE TABLE indelible_pending (
    tenant text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    hash   bytea NOT NULL
);
