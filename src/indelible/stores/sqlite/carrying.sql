-- Carries tenants to another store: every column of every table, in an order that both stores keep.

-- name: is_empty
-- Was nothing ever written here?
SELECT NOT EXISTS (SELECT 1 FROM indelible_runs) AND NOT EXISTS (SELECT 1 FROM indelible_effects)
AND NOT EXISTS (SELECT 1 FROM indelible_sheets) AND NOT EXISTS (SELECT 1 FROM indelible_heads)
AND NOT EXISTS (SELECT 1 FROM indelible_redaction)

-- name: count_rows
-- How many rows there are in all.
SELECT
    (SELECT count(*) FROM indelible_ledger) +
    (SELECT count(*) FROM indelible_redaction) +
    (SELECT count(*) FROM indelible_runs) +
    (SELECT count(*) FROM indelible_effects) +
    (SELECT count(*) FROM indelible_events) +
    (SELECT count(*) FROM indelible_payloads) +
    (SELECT count(*) FROM indelible_pending) +
    (SELECT count(*) FROM indelible_trees) +
    (SELECT count(*) FROM indelible_leaves) +
    (SELECT count(*) FROM indelible_tiles) +
    (SELECT count(*) FROM indelible_heads) +
    (SELECT count(*) FROM indelible_sheets)

-- name: count_rows_of_tenant
-- How many rows a tenant has.
SELECT
    (SELECT count(*) FROM indelible_runs WHERE tenant = :tenant) +
    (SELECT count(*) FROM indelible_effects WHERE tenant = :tenant) +
    (SELECT count(*) FROM indelible_events WHERE tenant = :tenant) +
    (SELECT count(*) FROM indelible_payloads WHERE tenant = :tenant) +
    (SELECT count(*) FROM indelible_pending WHERE tenant = :tenant) +
    (SELECT count(*) FROM indelible_trees WHERE tenant = :tenant) +
    (SELECT count(*) FROM indelible_leaves WHERE tenant = :tenant) +
    (SELECT count(*) FROM indelible_tiles WHERE tenant = :tenant) +
    (SELECT count(*) FROM indelible_heads WHERE tenant = :tenant) +
    (SELECT count(*) FROM indelible_sheets WHERE tenant = :tenant)

-- name: list_tenants
-- Whoever has a row of any kind.
SELECT tenant FROM indelible_runs
UNION SELECT tenant FROM indelible_effects
UNION SELECT tenant FROM indelible_events
UNION SELECT tenant FROM indelible_payloads
UNION SELECT tenant FROM indelible_pending
UNION SELECT tenant FROM indelible_trees
UNION SELECT tenant FROM indelible_leaves
UNION SELECT tenant FROM indelible_tiles
UNION SELECT tenant FROM indelible_heads
UNION SELECT tenant FROM indelible_sheets
ORDER BY tenant

-- name: read_ledger
-- The ledger's own name.
SELECT name, created_at, has_macs
FROM indelible_ledger

-- name: write_ledger
-- The ledger's own name.
UPDATE indelible_ledger SET name = ?, created_at = ?, has_macs = ?

-- name: read_redaction
-- Which redaction key it is.
SELECT key_check
FROM indelible_redaction

-- name: write_redaction
-- Which redaction key it is.
INSERT INTO indelible_redaction (only_row, key_check) VALUES (1, ?)

-- name: read_runs
-- Ends of runs' chains.
SELECT tenant, run_id, count, head, begun_at
FROM indelible_runs WHERE tenant = :tenant ORDER BY run_id

-- name: clear_runs
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_runs WHERE tenant = :tenant

-- name: write_runs
-- Ends of runs' chains.
INSERT INTO indelible_runs (tenant, run_id, count, head, begun_at)
VALUES (?, ?, ?, ?, ?)

-- name: read_effects
-- Effects.
SELECT tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt,
    version, token_hash, lease_until, opened_seq, detail_seq, created_at, updated_at, approval_id,
    charges, turn, doubted, mac
FROM indelible_effects WHERE tenant = :tenant ORDER BY scope, key

-- name: clear_effects
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_effects WHERE tenant = :tenant

-- name: write_effects
-- Effects.
INSERT INTO indelible_effects (tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt,
    version, token_hash, lease_until, opened_seq, detail_seq, created_at, updated_at, approval_id,
    charges, turn, doubted, mac)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: read_events
-- Events.
SELECT tenant, run_id, seq, effect_id, type, hash, body, signature, mac
FROM indelible_events WHERE tenant = :tenant ORDER BY run_id, seq

-- name: clear_events
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_events WHERE tenant = :tenant

-- name: write_events
-- Events.
INSERT INTO indelible_events (tenant, run_id, seq, effect_id, type, hash, body, signature, mac)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: read_payloads
-- What events commit to.
SELECT tenant, run_id, seq, field, salt, value, mac
FROM indelible_payloads WHERE tenant = :tenant ORDER BY run_id, seq, field

-- name: clear_payloads
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_payloads WHERE tenant = :tenant

-- name: write_payloads
-- What events commit to.
INSERT INTO indelible_payloads (tenant, run_id, seq, field, salt, value, mac)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: read_pending
-- Events that the journal has not taken in.
SELECT tenant, run_id, seq, hash
FROM indelible_pending WHERE tenant = :tenant ORDER BY run_id, seq

-- name: clear_pending
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_pending WHERE tenant = :tenant

-- name: write_pending
-- Events that the journal has not taken in.
INSERT INTO indelible_pending (tenant, run_id, seq, hash)
VALUES (?, ?, ?, ?)

-- name: read_trees
-- Journals.
SELECT tenant, size, root
FROM indelible_trees WHERE tenant = :tenant

-- name: clear_trees
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_trees WHERE tenant = :tenant

-- name: write_trees
-- Journals.
INSERT INTO indelible_trees (tenant, size, root)
VALUES (?, ?, ?)

-- name: read_leaves
-- Places of events in journals.
SELECT tenant, leaf, run_id, seq, hash
FROM indelible_leaves WHERE tenant = :tenant ORDER BY leaf

-- name: clear_leaves
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_leaves WHERE tenant = :tenant

-- name: write_leaves
-- Places of events in journals.
INSERT INTO indelible_leaves (tenant, leaf, run_id, seq, hash)
VALUES (?, ?, ?, ?, ?)

-- name: read_tiles
-- Tiles of journals.
SELECT tenant, level, number, hashes
FROM indelible_tiles WHERE tenant = :tenant ORDER BY level, number

-- name: clear_tiles
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_tiles WHERE tenant = :tenant

-- name: write_tiles
-- Tiles of journals.
INSERT INTO indelible_tiles (tenant, level, number, hashes)
VALUES (?, ?, ?, ?)

-- name: read_heads
-- Signed heads.
SELECT tenant, size, note, at
FROM indelible_heads WHERE tenant = :tenant ORDER BY size

-- name: clear_heads
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_heads WHERE tenant = :tenant

-- name: write_heads
-- Signed heads.
INSERT INTO indelible_heads (tenant, size, note, at)
VALUES (?, ?, ?, ?)

-- name: read_sheets
-- Sheets.
SELECT tenant, kind, id, version, status, topic, due_at, run_id, seq, body, created_at, mac
FROM indelible_sheets WHERE tenant = :tenant ORDER BY kind, id

-- name: clear_sheets
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_sheets WHERE tenant = :tenant

-- name: write_sheets
-- Sheets.
INSERT INTO indelible_sheets (tenant, kind, id, version, status, topic, due_at, run_id, seq, body, created_at, mac)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
