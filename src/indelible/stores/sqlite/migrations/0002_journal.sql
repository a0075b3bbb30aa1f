-- The journal: a tree over all events of a tenant, its tiles, its signed heads; and writers' own signatures.

ALTER TABLE indelible_events ADD COLUMN signature BLOB;

CREATE TABLE indelible_trees (
    tenant TEXT NOT NULL PRIMARY KEY,
    size   INTEGER NOT NULL,
    root   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE indelible_leaves (
    tenant TEXT NOT NULL,
    leaf   INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    hash   BLOB NOT NULL,
    PRIMARY KEY (tenant, leaf)
) STRICT, WITHOUT ROWID;

-- Finds the place of an event, and refuses to give it two.
CREATE UNIQUE INDEX indelible_leaves_by_event ON indelible_leaves (tenant, run_id, seq);

CREATE TABLE indelible_tiles (
    tenant TEXT NOT NULL,
    level  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    hashes BLOB NOT NULL,
    PRIMARY KEY (tenant, level, number)
) STRICT;

CREATE TABLE indelible_heads (
    tenant TEXT NOT NULL,
    size   INTEGER NOT NULL,
    note   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (tenant, size)
) STRICT;
