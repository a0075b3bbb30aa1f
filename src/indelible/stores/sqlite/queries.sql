-- Every statement of the SQLite store. No rules live here: the core decides, these read and write.
-- OR ROLLBACK: a conflict ends the whole transaction, so SQLite need not keep a journal of each statement to undo it.

-- name: effect_at
-- One effect by its place.
SELECT * FROM indelible_effects WHERE tenant = ? AND scope = ? AND key = ?

-- name: payloads_of
-- What the event that opened an effect commits to, and the event that told its detail.
SELECT seq, field, value FROM indelible_payloads WHERE tenant = ? AND run_id = ? AND seq IN (?, ?)

-- name: heads_of
-- The ends of some runs' chains.
SELECT run_id, count, head FROM indelible_runs WHERE (tenant, run_id) IN (VALUES /* rows */ (?, ?))

-- name: insert_effects
-- New effects; their keys must be free.
INSERT OR ROLLBACK INTO indelible_effects (tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt,
    version, token_hash, lease_until, opened_seq, detail_seq, created_at, updated_at)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_effects
-- Moves of effects, each only from the state it was decided on.
UPDATE OR ROLLBACK indelible_effects
SET status = v.column6, attempt = v.column7, version = v.column8, token_hash = v.column9, lease_until = v.column10,
    detail_seq = v.column11, updated_at = v.column12
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS v
WHERE indelible_effects.tenant = v.column1 AND indelible_effects.scope = v.column2 AND indelible_effects.key = v.column3
    AND indelible_effects.version = v.column4 AND indelible_effects.token_hash = v.column5

-- name: put_heads
-- The new ends of runs' chains.
INSERT INTO indelible_runs (tenant, run_id, count, head) VALUES /* rows */ (?, ?, ?, ?)
ON CONFLICT (tenant, run_id) DO UPDATE SET count = excluded.count, head = excluded.head

-- name: insert_events
-- Facts of runs.
INSERT OR ROLLBACK INTO indelible_events (tenant, run_id, seq, effect_id, type, hash, body) VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?)

-- name: insert_payloads
-- Values that events commit to.
INSERT OR ROLLBACK INTO indelible_payloads (tenant, run_id, seq, field, salt, value) VALUES /* rows */ (?, ?, ?, ?, ?, ?)

-- name: insert_pending
-- Events for the journal to take in.
INSERT OR ROLLBACK INTO indelible_pending (tenant, run_id, seq, hash) VALUES /* rows */ (?, ?, ?, ?)

-- name: data_version
-- A number that changes when another connection has written.
PRAGMA data_version

-- name: heartbeat
-- A longer lease, for the holder of the claim only.
UPDATE indelible_effects SET lease_until = max(lease_until, ?)
WHERE tenant = ? AND scope = ? AND key = ? AND token_hash = ? AND attempt = ? AND status = 'processing'

-- name: find_ids
-- Places of the effects whose ids lie in a range; two are enough to see that a prefix is ambiguous.
SELECT scope, key FROM indelible_effects WHERE tenant = ? AND id >= ? AND id < ? ORDER BY id LIMIT 2

-- name: find_key
-- The place of a key whose scope is not known.
SELECT scope, key FROM indelible_effects WHERE tenant = ? AND key = ?

-- name: list_effects
-- Effects that fit a filter, newest first; a null does not filter.
SELECT e.*, a.value, d.value
FROM indelible_effects e
LEFT JOIN indelible_payloads a ON a.tenant = e.tenant AND a.run_id = e.run_id AND a.seq = e.opened_seq AND a.field = 'args'
LEFT JOIN indelible_payloads d ON d.tenant = e.tenant AND d.run_id = e.run_id AND d.seq = e.detail_seq
    AND d.field = CASE e.status WHEN 'succeeded' THEN 'result' WHEN 'failed' THEN 'error' ELSE 'reason' END
WHERE e.tenant = :tenant
    AND (:before IS NULL OR e.id < :before)
    AND (:status IS NULL OR e.status = :status)
    AND (:tool IS NULL OR e.tool = :tool)
    AND (:run_id IS NULL OR e.run_id = :run_id)
    AND (:side_effect IS NULL OR e.side_effect = :side_effect)
ORDER BY e.id DESC LIMIT :limit

-- name: list_abandoned
-- Effects that a probe or a person has to see to, oldest first.
SELECT scope, key FROM indelible_effects
WHERE tenant = :tenant AND (status = 'in_doubt' OR (status = 'processing' AND lease_until <= :now))
ORDER BY id LIMIT :limit

-- name: list_events
-- A run's events after a number, in order.
SELECT run_id, seq, effect_id, type, hash, body FROM indelible_events
WHERE tenant = ? AND run_id = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: list_payloads
-- What one event commits to and what has not been erased.
SELECT run_id, seq, field, salt, value FROM indelible_payloads WHERE tenant = ? AND run_id = ? AND seq = ? ORDER BY field

-- name: ledger_name
-- The name of this ledger.
SELECT name FROM indelible_ledger

-- name: name_ledger
-- Names a new ledger.
INSERT INTO indelible_ledger (only_row, name, created_at) VALUES (1, ?, ?)
