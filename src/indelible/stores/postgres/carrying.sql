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

-- name: keep_others_out
-- Lets nobody write into the ledger that is being filled.
LOCK TABLE indelible_ledger, indelible_runs IN EXCLUSIVE MODE

-- name: is_hidden
-- Does the server show this connection only some of the rows of any table?
SELECT coalesce(bool_or(row_security_active(oid)), false) FROM pg_class
WHERE relkind IN ('r', 'p') AND relname LIKE 'indelible\_%' AND pg_table_is_visible(oid)

-- name: count_rows_of_tenant
-- How many rows a tenant has.
SELECT
    (SELECT count(*) FROM indelible_runs WHERE tenant = %(tenant)s) +
    (SELECT count(*) FROM indelible_effects WHERE tenant = %(tenant)s) +
    (SELECT count(*) FROM indelible_events WHERE tenant = %(tenant)s) +
    (SELECT count(*) FROM indelible_payloads WHERE tenant = %(tenant)s) +
    (SELECT count(*) FROM indelible_pending WHERE tenant = %(tenant)s) +
    (SELECT count(*) FROM indelible_trees WHERE tenant = %(tenant)s) +
    (SELECT count(*) FROM indelible_leaves WHERE tenant = %(tenant)s) +
    (SELECT count(*) FROM indelible_tiles WHERE tenant = %(tenant)s) +
    (SELECT count(*) FROM indelible_heads WHERE tenant = %(tenant)s) +
    (SELECT count(*) FROM indelible_sheets WHERE tenant = %(tenant)s)

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
UPDATE indelible_ledger SET name = %s, created_at = %s, has_macs = %s

-- name: read_redaction
-- Which redaction key it is.
SELECT key_check
FROM indelible_redaction

-- name: write_redaction
-- Which redaction key it is.
INSERT INTO indelible_redaction (only_row, key_check) VALUES (1, %s)

-- name: read_runs
-- Ends of runs' chains.
SELECT tenant, run_id, count, head, begun_at
FROM indelible_runs WHERE tenant = %(tenant)s ORDER BY run_id

-- name: clear_runs
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_runs WHERE tenant = %(tenant)s

-- name: write_runs
-- Ends of runs' chains.
COPY indelible_runs (tenant, run_id, count, head, begun_at)
FROM STDIN (FORMAT BINARY)

-- name: read_effects
-- Effects.
SELECT tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt,
    version, token_hash, lease_until, opened_seq, detail_seq, created_at, updated_at, approval_id,
    charges, turn, doubted, mac
FROM indelible_effects WHERE tenant = %(tenant)s ORDER BY scope, key

-- name: clear_effects
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_effects WHERE tenant = %(tenant)s

-- name: write_effects
-- Effects.
COPY indelible_effects (tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt,
    version, token_hash, lease_until, opened_seq, detail_seq, created_at, updated_at, approval_id,
    charges, turn, doubted, mac)
FROM STDIN (FORMAT BINARY)

-- name: read_events
-- Events.
SELECT tenant, run_id, seq, effect_id, type, hash, body, signature, mac
FROM indelible_events WHERE tenant = %(tenant)s ORDER BY run_id, seq

-- name: clear_events
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_events WHERE tenant = %(tenant)s

-- name: write_events
-- Events.
COPY indelible_events (tenant, run_id, seq, effect_id, type, hash, body, signature, mac)
FROM STDIN (FORMAT BINARY)

-- name: read_payloads
-- What events commit to.
SELECT tenant, run_id, seq, field, salt, value, mac
FROM indelible_payloads WHERE tenant = %(tenant)s ORDER BY run_id, seq, field

-- name: clear_payloads
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_payloads WHERE tenant = %(tenant)s

-- name: write_payloads
-- What events commit to.
COPY indelible_payloads (tenant, run_id, seq, field, salt, value, mac)
FROM STDIN (FORMAT BINARY)

-- name: read_pending
-- Events that the journal has not taken in.
SELECT tenant, run_id, seq, hash
FROM indelible_pending WHERE tenant = %(tenant)s ORDER BY run_id, seq

-- name: clear_pending
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_pending WHERE tenant = %(tenant)s

-- name: write_pending
-- Events that the journal has not taken in.
COPY indelible_pending (tenant, run_id, seq, hash)
FROM STDIN (FORMAT BINARY)

-- name: read_trees
-- Journals.
SELECT tenant, size, root
FROM indelible_trees WHERE tenant = %(tenant)s

-- name: clear_trees
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_trees WHERE tenant = %(tenant)s

-- name: write_trees
-- Journals.
COPY indelible_trees (tenant, size, root)
FROM STDIN (FORMAT BINARY)

-- name: read_leaves
-- Places of events in journals.
SELECT tenant, leaf, run_id, seq, hash
FROM indelible_leaves WHERE tenant = %(tenant)s ORDER BY leaf

-- name: clear_leaves
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_leaves WHERE tenant = %(tenant)s

-- name: write_leaves
-- Places of events in journals.
COPY indelible_leaves (tenant, leaf, run_id, seq, hash)
FROM STDIN (FORMAT BINARY)

-- name: read_tiles
-- Tiles of journals.
SELECT tenant, level, number, hashes
FROM indelible_tiles WHERE tenant = %(tenant)s ORDER BY level, number

-- name: clear_tiles
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_tiles WHERE tenant = %(tenant)s

-- name: write_tiles
-- Tiles of journals.
COPY indelible_tiles (tenant, level, number, hashes)
FROM STDIN (FORMAT BINARY)

-- name: read_heads
-- Signed heads.
SELECT tenant, size, note, at
FROM indelible_heads WHERE tenant = %(tenant)s ORDER BY size

-- name: clear_heads
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_heads WHERE tenant = %(tenant)s

-- name: write_heads
-- Signed heads.
COPY indelible_heads (tenant, size, note, at)
FROM STDIN (FORMAT BINARY)

-- name: read_sheets
-- Sheets.
SELECT tenant, kind, id, version, status, topic, due_at, run_id, seq, body, created_at, mac
FROM indelible_sheets WHERE tenant = %(tenant)s ORDER BY kind, id

-- name: clear_sheets
-- Makes room for the same tenant, which comes back.
DELETE FROM indelible_sheets WHERE tenant = %(tenant)s

-- name: write_sheets
-- Sheets.
COPY indelible_sheets (tenant, kind, id, version, status, topic, due_at, run_id, seq, body, created_at, mac)
FROM STDIN (FORMAT BINARY)
