-- Every statement of the SQLite store. No rules live here: the core decides, these read and write.

-- name: effect_at
-- One effect by its place.
SELECT * FROM effects WHERE tenant = ? AND scope = ? AND key = ?

-- name: payloads_of
-- What the event that opened an effect commits to, and the event that told its detail.
SELECT seq, field, value FROM payloads WHERE tenant = ? AND run_id = ? AND seq IN (?, ?)

-- name: effect_mark
-- What tells whether an effect is still as a claim's holder knows it.
SELECT version, token FROM effects WHERE tenant = ? AND scope = ? AND key = ?

-- name: head_of
-- The end of a run's chain.
SELECT count, head FROM runs WHERE tenant = ? AND run_id = ?

-- name: insert_effect
-- A new effect; its key must be free.
INSERT INTO effects (tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt,
    version, token, lease_until, opened_seq, detail_seq, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_effect
-- A move of an effect.
UPDATE effects SET status = ?, attempt = ?, version = ?, token = ?, lease_until = ?, detail_seq = ?, updated_at = ?
WHERE tenant = ? AND scope = ? AND key = ?

-- name: put_head
-- The new end of a run's chain.
INSERT INTO runs (tenant, run_id, count, head) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, run_id) DO UPDATE SET count = excluded.count, head = excluded.head

-- name: insert_event
-- One fact of a run.
INSERT INTO events (tenant, run_id, seq, effect_id, type, hash, body) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: insert_payload
-- One value an event commits to.
INSERT INTO payloads (tenant, run_id, seq, field, salt, value) VALUES (?, ?, ?, ?, ?, ?)

-- name: insert_pending
-- An event for the journal to take in.
INSERT INTO pending (tenant, run_id, seq, hash) VALUES (?, ?, ?, ?)

-- name: heartbeat
-- A longer lease, for the holder of the claim only.
UPDATE effects SET lease_until = ?
WHERE tenant = ? AND scope = ? AND key = ? AND token = ? AND attempt = ? AND status = 'processing'

-- name: find_ids
-- Places of the effects whose ids lie in a range; two are enough to see that a prefix is ambiguous.
SELECT scope, key FROM effects WHERE tenant = ? AND id >= ? AND id < ? ORDER BY id LIMIT 2

-- name: find_key
-- The place of a key whose scope is not known.
SELECT scope, key FROM effects WHERE tenant = ? AND key = ?

-- name: list_effects
-- Effects that fit a filter, newest first; a null does not filter.
SELECT e.*, a.value, d.value
FROM effects e
LEFT JOIN payloads a ON a.tenant = e.tenant AND a.run_id = e.run_id AND a.seq = e.opened_seq AND a.field = 'args'
LEFT JOIN payloads d ON d.tenant = e.tenant AND d.run_id = e.run_id AND d.seq = e.detail_seq
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
SELECT scope, key FROM effects
WHERE tenant = :tenant AND (status = 'in_doubt' OR (status = 'processing' AND lease_until <= :now))
ORDER BY id LIMIT :limit

-- name: list_events
-- A run's events after a number, in order.
SELECT run_id, seq, effect_id, type, hash, body FROM events
WHERE tenant = ? AND run_id = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: list_payloads
-- What one event commits to and what has not been erased.
SELECT run_id, seq, field, salt, value FROM payloads WHERE tenant = ? AND run_id = ? AND seq = ? ORDER BY field

-- name: ledger_name
-- The name of this ledger.
SELECT name FROM ledger

-- name: name_ledger
-- Names a new ledger.
INSERT INTO ledger (only_row, name, created_at) VALUES (1, ?, ?)
