-- The journal: a tree over all events of a tenant, its tiles, its signed heads; and writers' own signatures.

ALTER TABLE indelible_events ADD COLUMN signature bytea;

-- Finds a tenant's waiting events in the order in which they are taken, however many tenants there are and however
-- many rows that were taken before have not been cleared away yet.
CREATE INDEX indelible_pending_by_run ON indelible_pending (tenant, run_id, seq);

-- What is taken leaves dead rows, and their number has nothing to do with how many live ones there are.
ALTER TABLE indelible_pending SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE indelible_trees (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    size   bigint NOT NULL,
    root   bytea NOT NULL
);

CREATE TABLE indelible_leaves (
    tenant text COLLATE "C" NOT NULL,
    leaf   bigint NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    hash   bytea NOT NULL,
    PRIMARY KEY (tenant, leaf)
);

-- Finds the place of an event, and refuses to give it two.
CREATE UNIQUE INDEX indelible_leaves_by_event ON indelible_leaves (tenant, run_id, seq);

CREATE TABLE indelible_tiles (
    tenant text COLLATE "C" NOT NULL,
    level  bigint NOT NULL,
    number bigint NOT NULL,
    hashes bytea NOT NULL,
    PRIMARY KEY (tenant, level, number)
);

-- Hashes cannot be compressed, so the server need not try.
ALTER TABLE indelible_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

CREATE TABLE indelible_heads (
    tenant text COLLATE "C" NOT NULL,
    size   bigint NOT NULL,
    note   text COLLATE "C" NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, size)
);
