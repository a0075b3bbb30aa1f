-- Every statement of the SQLite store. No rules live here: the core decides, these read and write.
-- OR ROLLBACK: a conflict ends the whole transaction, so SQLite need not keep a journal of each statement to undo it.

-- name: effect_at
-- One effect by its place, with its arguments and its detail. By subqueries: a join takes SQLite six times as long.
SELECT e.*,
    (SELECT value FROM indelible_payloads WHERE tenant = e.tenant AND run_id = e.run_id AND seq = e.opened_seq
        AND field = 'args'),
    (SELECT value FROM indelible_payloads WHERE tenant = e.tenant AND run_id = e.run_id AND seq = e.detail_seq
        AND field = CASE e.status WHEN 'succeeded' THEN 'result' WHEN 'failed' THEN 'error' ELSE 'reason' END),
    (SELECT mac FROM indelible_payloads WHERE tenant = e.tenant AND run_id = e.run_id AND seq = e.opened_seq
        AND field = 'args'),
    (SELECT mac FROM indelible_payloads WHERE tenant = e.tenant AND run_id = e.run_id AND seq = e.detail_seq
        AND field = CASE e.status WHEN 'succeeded' THEN 'result' WHEN 'failed' THEN 'error' ELSE 'reason' END)
FROM indelible_effects e WHERE e.tenant = ? AND e.scope = ? AND e.key = ?

-- name: marks_at
-- What shows whether effects have changed; those that nobody waits for any more may have been erased besides.
SELECT tenant, scope, key, version, lease_until FROM indelible_effects
WHERE (tenant, scope, key) IN (VALUES /* rows */ (?, ?, ?))

-- name: heads_of
-- The ends of some runs' chains, and the event that each ends with.
SELECT r.run_id, r.count, r.head, e.type, e.hash, e.mac
FROM indelible_runs r
LEFT JOIN indelible_events e ON e.tenant = r.tenant AND e.run_id = r.run_id AND e.seq = r.count - 1
WHERE (r.tenant, r.run_id) IN (VALUES /* rows */ (?, ?))

-- name: insert_effects
-- New effects; their keys must be free.
INSERT OR ROLLBACK INTO indelible_effects (tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt,
    version, token_hash, lease_until, opened_seq, detail_seq, created_at, updated_at, turn, mac)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_effects_with_sheets
-- New effects that somebody is asked about or that a budget limits; their keys must be free.
INSERT OR ROLLBACK INTO indelible_effects (tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt,
    version, token_hash, lease_until, opened_seq, detail_seq, created_at, updated_at, turn, mac, approval_id, charges)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_effects
-- Moves of effects, each only from the state it was decided on.
UPDATE OR ROLLBACK indelible_effects
SET status = v.column6, attempt = v.column7, version = v.column8, token_hash = v.column9, lease_until = v.column10,
    detail_seq = v.column11, updated_at = v.column12, turn = v.column13, doubted = v.column14, mac = v.column15
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS v
WHERE indelible_effects.tenant = v.column1 AND indelible_effects.scope = v.column2 AND indelible_effects.key = v.column3
    AND indelible_effects.version = v.column4 AND indelible_effects.token_hash = v.column5

-- name: update_effects_with_sheets
-- Moves of effects that somebody is asked about or that a budget limits, each only from the state it was decided on.
UPDATE OR ROLLBACK indelible_effects
SET status = v.column6, attempt = v.column7, version = v.column8, token_hash = v.column9, lease_until = v.column10,
    detail_seq = v.column11, updated_at = v.column12, turn = v.column13, doubted = v.column14, mac = v.column15,
    digest = v.column16, opened_seq = v.column17, approval_id = v.column18, charges = v.column19
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS v
WHERE indelible_effects.tenant = v.column1 AND indelible_effects.scope = v.column2 AND indelible_effects.key = v.column3
    AND indelible_effects.version = v.column4 AND indelible_effects.token_hash = v.column5

-- name: put_heads
-- The new ends of runs' chains.
INSERT INTO indelible_runs (tenant, run_id, count, head, begun_at) VALUES /* rows */ (?, ?, ?, ?, ?)
ON CONFLICT (tenant, run_id) DO UPDATE SET count = excluded.count, head = excluded.head

-- name: insert_events
-- Facts of runs.
INSERT OR ROLLBACK INTO indelible_events (tenant, run_id, seq, effect_id, type, hash, body, signature, mac)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_payloads
-- Values that events commit to.
INSERT OR ROLLBACK INTO indelible_payloads (tenant, run_id, seq, field, salt, value, mac)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?)

-- name: insert_pending
-- Events for the journal to take in.
INSERT OR ROLLBACK INTO indelible_pending (tenant, run_id, seq, hash) VALUES /* rows */ (?, ?, ?, ?)

-- name: sheets_at
-- A row for each place that is asked for, so that what was not read is not taken for what is not there: the place, the
-- sheet if there is one, and what its event commits to under the name of its kind, and how.
SELECT v.column2, v.column3, s.*, p.value, p.salt, e.body
FROM (VALUES /* rows */ (?, ?, ?)) v
LEFT JOIN indelible_sheets s ON s.tenant = v.column1 AND s.kind = v.column2 AND s.id = v.column3
LEFT JOIN indelible_payloads p ON p.tenant = s.tenant AND p.run_id = s.run_id AND p.seq = s.seq AND p.field = s.kind
LEFT JOIN indelible_events e ON e.tenant = s.tenant AND e.run_id = s.run_id AND e.seq = s.seq

-- name: insert_sheets
-- New sheets; their places must be free.
INSERT OR ROLLBACK INTO indelible_sheets (tenant, kind, id, version, status, topic, due_at, run_id, seq, body,
    created_at, mac)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_sheets
-- Changes of sheets that leave them where they are in every index, each only from the version it was decided on.
UPDATE OR ROLLBACK indelible_sheets SET version = v.column5, run_id = v.column6, seq = v.column7, body = v.column8,
    mac = v.column9
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?)) AS v
WHERE indelible_sheets.tenant = v.column1 AND indelible_sheets.kind = v.column2 AND indelible_sheets.id = v.column3
    AND indelible_sheets.version = v.column4

-- name: move_sheets
-- Changes of sheets, each only from the version it was decided on.
UPDATE OR ROLLBACK indelible_sheets SET version = v.column5, run_id = v.column6, seq = v.column7, body = v.column8,
    mac = v.column9, status = v.column10, topic = v.column11, due_at = v.column12
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS v
WHERE indelible_sheets.tenant = v.column1 AND indelible_sheets.kind = v.column2 AND indelible_sheets.id = v.column3
    AND indelible_sheets.version = v.column4

-- name: list_sheets
-- Sheets that fit a filter, with what is on them; a null does not filter. {index} and {way} say how to find them.
SELECT s.*, p.value, p.salt, e.body
FROM indelible_sheets s {index}
LEFT JOIN indelible_payloads p ON p.tenant = s.tenant AND p.run_id = s.run_id AND p.seq = s.seq AND p.field = s.kind
LEFT JOIN indelible_events e ON e.tenant = s.tenant AND e.run_id = s.run_id AND e.seq = s.seq
WHERE s.tenant = :tenant AND s.kind = :kind AND {way}
    AND (:id IS NULL OR s.id = :id)
    AND (:status IS NULL OR s.status = :status)
    AND (:topic IS NULL OR s.topic = :topic)
    AND (:due_by IS NULL OR s.due_at <= :due_by)
ORDER BY {order} LIMIT :limit

-- name: list_any_runs
-- Runs that have events, as sheets; of one that was never started, its newest event. {index} and {way} say how.
SELECT r.tenant, 'run', r.run_id, coalesce(s.version, 0), coalesce(s.status, :unstarted), coalesce(s.topic, ''), NULL,
    r.run_id, coalesce(s.seq, r.count - 1), NULL, r.begun_at, NULL, p.value, p.salt, e.body
FROM indelible_runs r {index}
LEFT JOIN indelible_sheets s ON s.tenant = r.tenant AND s.kind = 'run' AND s.id = r.run_id
LEFT JOIN indelible_payloads p ON p.tenant = r.tenant AND p.run_id = r.run_id AND p.seq = s.seq AND p.field = 'run'
LEFT JOIN indelible_events e
    ON e.tenant = r.tenant AND e.run_id = r.run_id AND e.seq = coalesce(s.seq, r.count - 1)
WHERE r.tenant = :tenant AND {way} AND substr(r.run_id, 1, length(:own)) <> :own
    AND (:status IS NULL OR s.id IS NULL)
ORDER BY r.begun_at DESC, r.run_id DESC LIMIT :limit

-- name: data_version
-- A number that changes when another connection has written.
PRAGMA data_version

-- name: heartbeat
-- A longer lease, for the holder of the claim only, as long as the lease has not run out.
UPDATE indelible_effects SET lease_until = max(lease_until, ?)
WHERE tenant = ? AND scope = ? AND key = ? AND token_hash = ? AND attempt = ? AND status = 'processing'
    AND lease_until > ?

-- name: find_ids
-- Places of the effects whose ids lie in a range; two are enough to see that a prefix is ambiguous.
SELECT scope, key FROM indelible_effects WHERE tenant = ? AND id >= ? AND id < ? ORDER BY id LIMIT 2

-- name: find_key
-- The place of a key whose scope is not known.
SELECT scope, key FROM indelible_effects WHERE tenant = ? AND key = ? LIMIT 2

-- name: list_effects
-- Effects that fit a filter, newest first; a null does not filter.
SELECT e.*, a.value, d.value, a.mac, d.mac
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

-- name: list_outlines
-- Effects without what they recorded, newest first, in a range of ids.
SELECT id, run_id, tool, side_effect, status, attempt, approval_id, created_at, updated_at, digest
FROM indelible_effects INDEXED BY indelible_effects_by_id
WHERE tenant = :tenant AND id >= :since AND id < :before ORDER BY id DESC LIMIT :limit

-- name: list_alike
-- Effects that say the same, in whatever run and under whatever key.
SELECT id, run_id, tool, side_effect, status, attempt, approval_id, created_at, updated_at, digest
FROM indelible_effects INDEXED BY indelible_effects_by_digest
WHERE tenant = :tenant AND digest = :digest AND side_effect NOT IN ('none', 'read') AND created_at >= :since LIMIT :limit

-- name: list_abandoned
-- Effects that a probe or a person has to see to, oldest first.
SELECT scope, key FROM indelible_effects
WHERE tenant = :tenant AND (status = 'in_doubt' OR (status = 'processing' AND lease_until <= :now))
ORDER BY id LIMIT :limit

-- name: list_events
-- A run's events after a number, in order.
SELECT run_id, seq, effect_id, type, hash, body, signature, mac FROM indelible_events
WHERE tenant = ? AND run_id = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: list_payloads
-- What one event commits to and what has not been erased.
SELECT run_id, seq, field, salt, value, mac FROM indelible_payloads WHERE tenant = ? AND run_id = ? AND seq = ? ORDER BY field

-- name: erase_payload
-- One value that an event commits to, gone.
DELETE FROM indelible_payloads WHERE tenant = ? AND run_id = ? AND seq = ? AND field = ?

-- name: erase_digest
-- The digest of the effect that an event opened, gone with its arguments.
UPDATE indelible_effects SET digest = zeroblob(32)
WHERE tenant = ? AND id = (SELECT effect_id FROM indelible_events WHERE tenant = ? AND run_id = ? AND seq = ?)
    AND opened_seq = ?
RETURNING tenant, scope, key

-- name: is_kept
-- Is something of a value still there that was to be erased? A trigger of a user's can keep it.
SELECT EXISTS (
    SELECT 1 FROM indelible_payloads WHERE tenant = :tenant AND run_id = :run_id AND seq = :seq AND field = :field
) OR :field = 'args' AND EXISTS (
    SELECT 1 FROM indelible_effects
    WHERE tenant = :tenant AND opened_seq = :seq AND digest <> zeroblob(32)
        AND id = (SELECT effect_id FROM indelible_events WHERE tenant = :tenant AND run_id = :run_id AND seq = :seq))

-- name: put_mac
-- The mac of an effect whose digest was erased.
UPDATE indelible_effects SET mac = ? WHERE tenant = ? AND scope = ? AND key = ?

-- name: find_subject
-- Places of the events that opened effects about a subject.
SELECT run_id, seq FROM indelible_payloads WHERE tenant = ? AND field = 'subject' AND value = ? ORDER BY run_id, seq

-- name: list_prunable
-- Effects that ended before a moment and whose arguments or detail are still there, oldest first, and where what they
-- committed to begins. Only if somebody was asked can it have begun before the arguments that are told now.
SELECT id, run_id,
    CASE WHEN approval_id IS NULL THEN opened_seq ELSE (SELECT min(v.seq) FROM indelible_events v
        WHERE v.tenant = e.tenant AND v.run_id = e.run_id AND v.effect_id = e.id) END
FROM indelible_effects e
WHERE tenant = :tenant AND id > :after AND updated_at < :before
    AND status IN ('succeeded', 'failed', 'denied', 'canceled')
    AND EXISTS (SELECT 1 FROM indelible_payloads p
        WHERE p.tenant = e.tenant AND p.run_id = e.run_id AND p.seq IN (e.opened_seq, e.detail_seq))
ORDER BY id LIMIT :limit

-- name: list_refusals
-- Events that tell of calls that were refused before they were effects, and that still have payloads.
SELECT run_id, seq, effect_id, type, hash, body, signature, mac FROM indelible_events e
WHERE tenant = :tenant AND type = 'policy_checked' AND effect_id IS NULL AND (run_id, seq) > (:run_id, :seq)
    AND EXISTS (SELECT 1 FROM indelible_payloads p WHERE p.tenant = e.tenant AND p.run_id = e.run_id AND p.seq = e.seq)
ORDER BY run_id, seq LIMIT :limit

-- name: drop_sheet
-- A sheet that no event commits to, if nobody changed it since.
DELETE FROM indelible_sheets WHERE tenant = ? AND kind = ? AND id = ? AND version = ?

-- name: list_holds
-- Events that placed and lifted legal holds.
SELECT run_id, seq, effect_id, type, hash, body, signature, mac FROM indelible_events
WHERE tenant = ? AND type IN ('hold_placed', 'hold_lifted') ORDER BY run_id, seq

-- name: redaction_check
-- What the ledger keeps to know its redaction key again.
SELECT key_check FROM indelible_redaction

-- name: keep_redaction_check
-- The first redaction key stays the ledger's.
INSERT INTO indelible_redaction (only_row, key_check) VALUES (1, ?) ON CONFLICT DO NOTHING

-- name: tree
-- A journal's tree as it is.
SELECT size, root FROM indelible_trees WHERE tenant = ?

-- name: take_pending
-- Events that wait to be integrated, oldest first; a run's events were appended in their order. Not of barred runs.
SELECT p.rowid, p.run_id, p.seq, p.hash, e.body, e.mac
FROM indelible_pending p
LEFT JOIN indelible_events e ON e.tenant = p.tenant AND e.run_id = p.run_id AND e.seq = p.seq
WHERE p.tenant = :tenant AND p.run_id NOT IN (SELECT value FROM json_each(:barred)) ORDER BY p.rowid LIMIT :most

-- name: drop_pending
-- Events that were integrated, up to the last one.
DELETE FROM indelible_pending
WHERE tenant = :tenant AND rowid <= :last AND run_id NOT IN (SELECT value FROM json_each(:barred))

-- name: insert_leaves
-- Places of events in the tree.
INSERT OR ROLLBACK INTO indelible_leaves (tenant, leaf, run_id, seq, hash) VALUES /* rows */ (?, ?, ?, ?, ?)

-- name: put_tile
-- A tile that is new or has grown.
INSERT INTO indelible_tiles (tenant, level, number, hashes) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, level, number) DO UPDATE SET hashes = excluded.hashes

-- name: put_tree
-- The tree after it has grown.
INSERT INTO indelible_trees (tenant, size, root) VALUES (?, ?, ?)
ON CONFLICT (tenant) DO UPDATE SET size = excluded.size, root = excluded.root

-- name: tile
-- One tile.
SELECT hashes FROM indelible_tiles WHERE tenant = ? AND level = ? AND number = ?

-- name: list_entries
-- Entries of the tree from an index on, with their events.
SELECT l.leaf, l.run_id, l.seq, l.hash, e.body, e.signature, e.mac
FROM indelible_leaves l
JOIN indelible_events e ON e.tenant = l.tenant AND e.run_id = l.run_id AND e.seq = l.seq
WHERE l.tenant = ? AND l.leaf >= ? AND l.leaf < ? ORDER BY l.leaf

-- name: leaf_of
-- The place of an event in the tree.
SELECT leaf FROM indelible_leaves WHERE tenant = ? AND run_id = ? AND seq = ?

-- name: put_head
-- A signed head; one of the same size is replaced by the one with more signatures. A head of more than the tree has was
-- signed while an older database was put in this one's place.
INSERT INTO indelible_heads (tenant, size, note, at)
SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM indelible_trees WHERE tenant = ?1 AND size >= ?2)
ON CONFLICT (tenant, size) DO UPDATE SET note = excluded.note, at = excluded.at

-- name: list_heads
-- Signed heads, the largest first.
SELECT note FROM indelible_heads WHERE tenant = :tenant AND (:up_to IS NULL OR size <= :up_to)
ORDER BY size DESC LIMIT :limit

-- name: count_pending
-- How many events wait to be integrated.
SELECT count(*) FROM indelible_pending WHERE tenant = ?

-- name: list_pending
-- Events that wait to be integrated.
SELECT run_id, seq, hash FROM indelible_pending WHERE tenant = ? LIMIT ?

-- name: list_runs
-- The ends of runs' chains, by name.
SELECT run_id, count, head FROM indelible_runs WHERE tenant = ? AND run_id > ? ORDER BY run_id LIMIT ?

-- name: list_tenants
-- Whoever has events.
SELECT DISTINCT tenant FROM indelible_runs ORDER BY tenant

-- name: has_macs
-- Do this ledger's rows carry macs?
SELECT has_macs FROM indelible_ledger

-- name: begin_macs
-- The rows of a new ledger do.
UPDATE indelible_ledger SET has_macs = 1

-- name: ledger_name
-- The name of this ledger.
SELECT name FROM indelible_ledger

-- name: read_origin
-- What a tenant's journal was called where the tenant comes from.
SELECT body FROM indelible_sheets WHERE tenant = :tenant AND kind = 'origin' AND id = 'journal'

-- name: name_ledger
-- Names a new ledger.
INSERT INTO indelible_ledger (only_row, name, created_at) VALUES (1, ?, ?)
