-- Every statement of the PostgreSQL store. No rules live here: the core decides, these read and write.
--
-- A writing statement is guarded. When what was decided on no longer holds, it either finds nothing to do, or the
-- number of an event comes out null, which the table forbids: then all of the statement is undone. The parts of a
-- statement run in an order of the server's choosing, so each of them asks the guard.
--
-- Everybody takes sheets first, those that are there and new ones alike, then the runs that are there, new runs, and
-- effects, and of each kind one after the other in their order: so no two wait for each other. Whoever moves an effect
-- has its run, so nobody else can want it. A sheet that nobody else can know of yet may come later.
--
-- Plans are made once, when a table may still be empty, and kept. So lookups are written in a way that leaves the
-- planner one choice, the primary key: by scalar subqueries, and by joins to what hides its constants (LATERAL,
-- OFFSET 0).
--
-- Lines that begin with --+ belong to a second statement of the same text, whose name goes on with _with_sheets: calls
-- that nobody was asked about and no budget limits are spared them.

-- name: effect
-- An effect `e` and its payloads as one value, put in where another statement says {effect}: less to set up.
ROW(e,
    (SELECT ROW(value, mac) FROM indelible_payloads WHERE tenant = e.tenant AND run_id = e.run_id AND seq = e.opened_seq
        AND field = 'args'),
    (SELECT ROW(value, mac) FROM indelible_payloads WHERE tenant = e.tenant AND run_id = e.run_id AND seq = e.detail_seq
        AND field = CASE e.status WHEN 'succeeded' THEN 'result' WHEN 'failed' THEN 'error' ELSE 'reason' END))

-- name: head
-- The end of a run's chain as one value, and the event that it ends with, put in where {head} stands.
ROW(r.count, r.head, (SELECT ROW(v.type, v.hash, v.mac) FROM indelible_events v
    WHERE v.tenant = r.tenant AND v.run_id = r.run_id AND v.seq = r.count - 1))

-- name: sheet
-- A sheet `s`, what its event commits to under the name of its kind, and how, put in where {sheet} stands.
ROW(s, (SELECT ROW(p.value, p.salt, e.body) FROM indelible_payloads p
    JOIN indelible_events e ON e.tenant = p.tenant AND e.run_id = p.run_id AND e.seq = p.seq
    WHERE p.tenant = s.tenant AND p.run_id = s.run_id AND p.seq = s.seq AND p.field = s.kind))

-- name: is_going
-- Is the tenant's stop as it was when claims were decided, and do their runs limit no calls where nobody knew of limits?
-- A place that this transaction holds for a limit (version 0) is none yet.
-- Put in where {is_going} stands; writes that rest on neither do not ask. A tree with fewer entries than were signed is an
-- error of its own, the root of a negative number: the database was put back, perhaps under this very connection.
(%(stop_version)s::bigint IS NULL OR %(stop_version)s = coalesce((
    SELECT CASE status WHEN 'stopped' THEN -version ELSE version END
    FROM indelible_sheets WHERE tenant = %(tenant)s AND kind = 'stop' AND id = 'effects'), 0))
AND (%(unlimited)s::text[] IS NULL OR NOT EXISTS (
    SELECT FROM indelible_sheets WHERE tenant = %(tenant)s AND kind = 'limit' AND id = ANY(%(unlimited)s::text[])
        AND version > 0))
AND (%(signed)s::bigint IS NULL OR sqrt(coalesce((
    SELECT size FROM indelible_trees WHERE tenant = %(tenant)s), 0) - %(signed)s) >= 0)

-- name: stands
-- Are the people and tokens as they were that this rests on? Put in where {stands} stands. A revocation under way is
-- waited for, so that nothing which begins after it rests on what was revoked.
NOT EXISTS (
    SELECT FROM unnest(%(standing_kind)s::text[], %(standing_id)s::text[], %(standing_version)s::bigint[])
        AS given (kind, id, version)
    WHERE given.version <> coalesce((
        SELECT version FROM indelible_sheets WHERE tenant = %(tenant)s AND kind = given.kind AND id = given.id
        FOR SHARE), 0))

-- name: kept_away
-- A trigger of a user's kept a row away without a word. This undoes the statement by an error of its own, the logarithm
-- of zero; the server cannot compute it beforehand. Put in where {kept_away} stands.
ln(0 * random()) = 0

-- name: refuse
-- Undoes a transaction when a row that was just written is not there.
SELECT {kept_away}

-- name: open_one
-- Opens one effect and appends its event to its run. Gives no row, or what is there instead: effect, head, time.
WITH headed AS (
    INSERT INTO indelible_runs (tenant, run_id, count, head)
    SELECT %(tenant)s::text, %(run_id)s::text, %(seq)s::bigint + 1, %(hash)s::bytea
    WHERE NOT EXISTS (
        SELECT FROM indelible_effects WHERE tenant = %(tenant)s AND scope = %(scope)s::text AND key = %(key)s::bytea)
        -- A new run has no head, neither in the table nor in what was decided on.
        AND (SELECT head FROM indelible_runs WHERE tenant = %(tenant)s AND run_id = %(run_id)s)
            IS NOT DISTINCT FROM %(prev)s::bytea
        AND {is_going}
    ON CONFLICT (tenant, run_id) DO UPDATE SET count = excluded.count, head = excluded.head
        WHERE indelible_runs.count = %(seq)s AND indelible_runs.head = %(prev)s
    RETURNING 1
), opened AS (
    INSERT INTO indelible_effects (tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status,
        attempt, version, token_hash, lease_until, opened_seq, created_at, updated_at, turn, mac)
    SELECT %(tenant)s, %(scope)s, %(key)s, %(id)s::text, %(run_id)s, %(tool)s::text, %(side_effect)s::text,
        %(on_crash)s::text, %(call_id)s::text, %(digest)s::bytea, %(status)s::text, %(attempt)s::bigint,
        %(version)s::bigint, %(token)s::bytea, coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease)s::interval,
        %(seq)s, %(created_at)s::timestamptz, %(updated_at)s::timestamptz, %(turn)s::text,
        %(effect_mac)s::bytea
    FROM headed
    RETURNING 1
), appended AS (
    INSERT INTO indelible_events (tenant, run_id, seq, effect_id, type, hash, body, signature, mac)
    SELECT %(tenant)s, %(run_id)s, %(seq)s, %(id)s, %(type)s::text, %(hash)s, %(body)s::bytea, %(signature)s::bytea,
        %(mac)s::bytea
    FROM opened
    RETURNING 1
), awaiting AS (
    INSERT INTO indelible_pending (tenant, run_id, seq, hash)
    SELECT %(tenant)s, %(run_id)s, %(seq)s, %(hash)s FROM opened
    RETURNING 1
), committed AS (
    INSERT INTO indelible_payloads (tenant, run_id, seq, field, salt, value, mac)
    SELECT %(tenant)s, %(run_id)s, %(seq)s, value.*
    FROM opened,
        (VALUES ('args', %(args_salt)s::bytea, %(args)s::bytea, %(args_mac)s::bytea),
            ('key', %(key_salt)s::bytea, %(key)s, %(key_mac)s::bytea)) AS value
    RETURNING 1
)
SELECT (SELECT {effect} FROM indelible_effects e WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s),
    (SELECT {head} FROM indelible_runs r WHERE tenant = %(tenant)s AND run_id = %(run_id)s),
    coalesce(%(now)s, clock_timestamp())
WHERE CASE WHEN (SELECT count(*) FROM headed) = ALL (ARRAY[(SELECT count(*) FROM opened),
        (SELECT count(*) FROM appended), (SELECT count(*) FROM awaiting), (SELECT count(*) / 2.0 FROM committed)])
    THEN NOT EXISTS (SELECT FROM opened) ELSE {kept_away} END

-- name: move_one
-- Moves one effect and appends its event, which commits to one value. Gives a row if it did: does somebody wait?
-- With sheets, which are locked before runs and effects, also to more values; undone by an error if a guard fails.
WITH
--+ kept AS (
--+     INSERT INTO indelible_sheets AS s (tenant, kind, id, version, status, topic, due_at, run_id, seq, body,
--+         created_at, mac)
--+     SELECT %(tenant)s, k.kind, k.id, k.version, k.status, k.topic, k.due_at, k.run_id, k.seq, k.body, k.created_at,
--+         k.mac
--+     FROM unnest(%(kept_kind)s::text[], %(kept_id)s::text[], %(kept_was_version)s::bigint[],
--+         %(kept_version)s::bigint[], %(kept_status)s::text[], %(kept_topic)s::text[], %(kept_due_at)s::timestamptz[],
--+         %(kept_run_id)s::text[], %(kept_seq)s::bigint[], %(kept_body)s::bytea[], %(kept_created_at)s::timestamptz[],
--+         %(kept_mac)s::bytea[])
--+         AS k (kind, id, was_version, version, status, topic, due_at, run_id, seq, body, created_at, mac)
--+     WHERE k.was_version = 0 OR (
--+         SELECT version FROM indelible_sheets WHERE tenant = %(tenant)s AND kind = k.kind AND id = k.id) IS NOT NULL
--+     ON CONFLICT (tenant, kind, id) DO UPDATE SET version = excluded.version, status = excluded.status,
--+         topic = excluded.topic, due_at = excluded.due_at, run_id = excluded.run_id, seq = excluded.seq,
--+         body = excluded.body, created_at = excluded.created_at, mac = excluded.mac
--+     WHERE s.version = (
--+         SELECT was_version FROM unnest(%(kept_kind)s, %(kept_id)s, %(kept_was_version)s) AS w (kind, id, was_version)
--+         WHERE w.kind = excluded.kind AND w.id = excluded.id)
--+     RETURNING 1
--+ ),
headed AS (
    UPDATE indelible_runs SET count = %(seq)s::bigint + 1, head = %(hash)s::bytea
    WHERE tenant = %(tenant)s::text AND run_id = %(run_id)s::text AND count = %(seq)s AND head = %(prev)s::bytea
        --+ AND CASE (SELECT count(*) FROM kept) WHEN cardinality(%(kept_id)s) THEN {stands} ELSE false END
        AND EXISTS (
            SELECT FROM indelible_effects
            WHERE tenant = %(tenant)s AND scope = %(scope)s::text AND key = %(key)s::bytea
                AND version = %(was_version)s::bigint AND token_hash = %(was_token)s::bytea)
        AND {is_going}
    RETURNING 1
), moved AS (
    UPDATE indelible_effects
    SET status = %(status)s::text, attempt = %(attempt)s::bigint, version = %(version)s::bigint,
        token_hash = %(token)s::bytea, detail_seq = %(detail_seq)s::bigint, updated_at = %(updated_at)s::timestamptz,
        turn = %(turn)s::text, doubted = %(doubted)s::bigint, mac = %(effect_mac)s::bytea,
        lease_until = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease)s::interval
        --+ , digest = %(digest)s::bytea, opened_seq = %(opened_seq)s::bigint, approval_id = %(approval_id)s::text,
        --+ charges = %(charges)s::bytea
    WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s
        AND version = %(was_version)s AND token_hash = %(was_token)s AND EXISTS (SELECT FROM headed)
    RETURNING id, awaited
), appended AS (
    INSERT INTO indelible_events (tenant, run_id, seq, effect_id, type, hash, body, signature, mac)
    SELECT %(tenant)s, %(run_id)s, CASE WHEN EXISTS (SELECT FROM moved) THEN %(seq)s END, (SELECT id FROM moved),
        %(type)s::text, %(hash)s, %(body)s::bytea, %(signature)s::bytea, %(mac)s::bytea
    FROM headed
    RETURNING 1
), awaiting AS (
    INSERT INTO indelible_pending (tenant, run_id, seq, hash)
    SELECT %(tenant)s, %(run_id)s, %(seq)s, %(hash)s FROM moved
    RETURNING 1
), committed AS (
    INSERT INTO indelible_payloads (tenant, run_id, seq, field, salt, value, mac)
    SELECT %(tenant)s, %(run_id)s, %(seq)s, %(field)s::text, %(salt)s::bytea, %(value)s::bytea, %(value_mac)s::bytea
    FROM moved
    --+ UNION ALL
    --+ SELECT %(tenant)s, %(run_id)s, %(seq)s, more.*
    --+ FROM moved, unnest(%(more_field)s::text[], %(more_salt)s::bytea[], %(more_value)s::bytea[],
    --+     %(more_mac)s::bytea[]) AS more
    RETURNING 1
)
SELECT awaited
    --+ AND NOT %(is_decided)s::boolean,
    --+ (SELECT count(pg_notify('indelible', left(encode(%(key)s, 'hex'), 16))) WHERE awaited AND %(is_decided)s)
FROM moved
--+ UNION ALL SELECT 1 / (SELECT count(*) FROM moved) = 0, 0 WHERE (SELECT count(*) FROM moved) = 0
UNION ALL
SELECT true
    --+ , 0
WHERE CASE WHEN (SELECT count(*) FROM headed) = ALL (ARRAY[(SELECT count(*) FROM moved),
        (SELECT count(*) FROM appended), (SELECT count(*) FROM awaiting),
        (SELECT count(*) FROM committed)
        --+ - (SELECT count(*) FROM moved) * cardinality(%(more_field)s)
    ])
    THEN false ELSE {kept_away} END

-- name: write_batch
-- Writes any number of changes of one tenant, all or none. Gives the keys of moved effects that somebody waits for.
-- With sheets: whoever waits for people is told in the same transaction, and those keys are not given. People decide
-- seldom, so that such commits may go one at a time; the way over the ringer would take as long as a write.
WITH headed AS (
    UPDATE indelible_runs r SET count = h.count, head = h.hash
    FROM (
        SELECT %(tenant)s::text AS tenant, h.*
        FROM unnest(%(headed_run_id)s::text[], %(headed_was_count)s::bigint[], %(headed_was_hash)s::bytea[],
            %(headed_count)s::bigint[], %(headed_hash)s::bytea[]) AS h (run_id, was_count, was_hash, count, hash)
        OFFSET 0
    ) AS h
    WHERE r.tenant = h.tenant AND r.run_id = h.run_id AND r.count = h.was_count AND r.head = h.was_hash
    RETURNING 1
), started AS (
    INSERT INTO indelible_runs (tenant, run_id, count, head)
    SELECT %(tenant)s, s.run_id, s.count, s.hash
    FROM unnest(%(started_run_id)s::text[], %(started_count)s::bigint[], %(started_hash)s::bytea[])
        AS s (run_id, count, hash)
    WHERE (SELECT count FROM indelible_runs r WHERE r.tenant = %(tenant)s AND r.run_id = s.run_id) IS NULL
    ON CONFLICT (tenant, run_id) DO NOTHING
    RETURNING 1
), opened AS (
    INSERT INTO indelible_effects (tenant, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status,
        attempt, version, token_hash, lease_until, opened_seq, detail_seq, created_at, updated_at, turn, mac
        --+ , approval_id, charges
        )
    SELECT %(tenant)s, scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt,
        version, token_hash, coalesce(%(now)s::timestamptz, clock_timestamp()) + lease, opened_seq, detail_seq,
        created_at, updated_at, turn, mac
        --+ , approval_id, charges
    FROM unnest(%(opened_scope)s::text[], %(opened_key)s::bytea[], %(opened_id)s::text[], %(opened_run_id)s::text[],
        %(opened_tool)s::text[], %(opened_side_effect)s::text[], %(opened_on_crash)s::text[],
        %(opened_call_id)s::text[], %(opened_digest)s::bytea[], %(opened_status)s::text[], %(opened_attempt)s::bigint[],
        %(opened_version)s::bigint[], %(opened_token)s::bytea[], %(opened_lease)s::interval[],
        %(opened_seq)s::bigint[], %(opened_detail_seq)s::bigint[], %(opened_created_at)s::timestamptz[],
        %(opened_updated_at)s::timestamptz[], %(opened_turn)s::text[], %(opened_mac)s::bytea[]
        --+ , %(opened_approval_id)s::text[], %(opened_charges)s::bytea[]
        )
        AS o (scope, key, id, run_id, tool, side_effect, on_crash, call_id, digest, status, attempt, version,
            token_hash, lease, opened_seq, detail_seq, created_at, updated_at, turn, mac
            --+ , approval_id, charges
            )
    ON CONFLICT (tenant, scope, key) DO NOTHING
    RETURNING 1
), moved AS (
    UPDATE indelible_effects e
    SET status = m.status, attempt = m.attempt, version = m.version, token_hash = m.token_hash,
        lease_until = coalesce(%(now)s, clock_timestamp()) + m.lease, detail_seq = m.detail_seq,
        updated_at = m.updated_at, turn = m.turn, doubted = m.doubted, mac = m.mac
        --+ , digest = m.digest, opened_seq = m.opened_seq, approval_id = m.approval_id, charges = m.charges
    FROM (
        SELECT %(tenant)s AS tenant, m.*
        FROM unnest(%(moved_scope)s::text[], %(moved_key)s::bytea[], %(moved_was_version)s::bigint[],
            %(moved_was_token)s::bytea[], %(moved_status)s::text[], %(moved_attempt)s::bigint[],
            %(moved_version)s::bigint[], %(moved_token)s::bytea[], %(moved_lease)s::interval[],
            %(moved_detail_seq)s::bigint[], %(moved_updated_at)s::timestamptz[], %(moved_turn)s::text[],
            %(moved_doubted)s::bigint[], %(moved_mac)s::bytea[]
            --+ , %(moved_digest)s::bytea[], %(moved_opened_seq)s::bigint[], %(moved_approval_id)s::text[],
            --+ %(moved_charges)s::bytea[]
            )
            AS m (scope, key, was_version, was_token, status, attempt, version, token_hash, lease, detail_seq,
                updated_at, turn, doubted, mac
                --+ , digest, opened_seq, approval_id, charges
                )
        OFFSET 0
    ) AS m
    WHERE e.tenant = m.tenant AND e.scope = m.scope AND e.key = m.key
        AND e.version = m.was_version AND e.token_hash = m.was_token
    RETURNING e.key, e.awaited
--+ ), kept AS (
--+     INSERT INTO indelible_sheets AS s (tenant, kind, id, version, status, topic, due_at, run_id, seq, body,
--+         created_at, mac)
--+     SELECT %(tenant)s, k.kind, k.id, k.version, k.status, k.topic, k.due_at, k.run_id, k.seq, k.body, k.created_at,
--+         k.mac
--+     FROM unnest(%(kept_kind)s::text[], %(kept_id)s::text[], %(kept_was_version)s::bigint[],
--+         %(kept_version)s::bigint[], %(kept_status)s::text[], %(kept_topic)s::text[], %(kept_due_at)s::timestamptz[],
--+         %(kept_run_id)s::text[], %(kept_seq)s::bigint[], %(kept_body)s::bytea[], %(kept_created_at)s::timestamptz[],
--+         %(kept_mac)s::bytea[])
--+         AS k (kind, id, was_version, version, status, topic, due_at, run_id, seq, body, created_at, mac)
--+     -- One that was there and is gone does not come back.
--+     WHERE k.was_version = 0 OR (
--+         SELECT version FROM indelible_sheets WHERE tenant = %(tenant)s AND kind = k.kind AND id = k.id) IS NOT NULL
--+     ON CONFLICT (tenant, kind, id) DO UPDATE SET version = excluded.version, status = excluded.status,
--+         topic = excluded.topic, due_at = excluded.due_at, run_id = excluded.run_id, seq = excluded.seq,
--+         body = excluded.body, created_at = excluded.created_at, mac = excluded.mac
--+     WHERE s.version = (
--+         SELECT was_version FROM unnest(%(kept_kind)s, %(kept_id)s, %(kept_was_version)s) AS w (kind, id, was_version)
--+         WHERE w.kind = excluded.kind AND w.id = excluded.id)
--+     RETURNING 1
), guard AS MATERIALIZED (
    SELECT
        --+ CASE (SELECT count(*) FROM kept) WHEN cardinality(%(kept_id)s) THEN {stands} ELSE false END AND
        (SELECT count(*) FROM headed) = cardinality(%(headed_hash)s)
        AND (SELECT count(*) FROM started) = cardinality(%(started_hash)s)
        AND (SELECT count(*) FROM opened) = cardinality(%(opened_key)s)
        AND (SELECT count(*) FROM moved) = cardinality(%(moved_key)s)
        AND {is_going}
        AS holds
), appended AS (
    INSERT INTO indelible_events (tenant, run_id, seq, effect_id, type, hash, body, signature, mac)
    SELECT %(tenant)s, run_id, CASE WHEN guard.holds THEN seq END, effect_id, type, hash, body, signature, mac
    FROM guard, unnest(%(event_run_id)s::text[], %(event_seq)s::bigint[], %(event_effect_id)s::text[],
        %(event_type)s::text[], %(event_hash)s::bytea[], %(event_body)s::bytea[], %(event_signature)s::bytea[],
        %(event_mac)s::bytea[]) AS v (run_id, seq, effect_id, type, hash, body, signature, mac)
    RETURNING 1
), awaiting AS (
    INSERT INTO indelible_pending (tenant, run_id, seq, hash)
    SELECT %(tenant)s, run_id, seq, hash
    FROM guard, unnest(%(event_run_id)s, %(event_seq)s, %(event_hash)s) AS v (run_id, seq, hash) WHERE guard.holds
    RETURNING 1
), committed AS (
    INSERT INTO indelible_payloads (tenant, run_id, seq, field, salt, value, mac)
    SELECT %(tenant)s, run_id, seq, field, salt, value, mac
    FROM guard, unnest(%(payload_run_id)s::text[], %(payload_seq)s::bigint[], %(payload_field)s::text[],
        %(payload_salt)s::bytea[], %(payload_value)s::bytea[], %(payload_mac)s::bytea[])
        AS p (run_id, seq, field, salt, value, mac)
    WHERE guard.holds
    RETURNING 1
)
SELECT ARRAY(
    SELECT key FROM moved WHERE awaited
    --+ AND key <> ALL (%(decided_key)s::bytea[])
    )
    --+ , (SELECT count(pg_notify('indelible', left(encode(key, 'hex'), 16))) FROM moved
    --+     WHERE awaited AND key = ANY (%(decided_key)s))
FROM guard WHERE CASE WHEN (SELECT count(*) FROM appended) = cardinality(%(event_hash)s)
        AND (NOT holds OR (SELECT count(*) FROM awaiting) = cardinality(%(event_hash)s)
            AND (SELECT count(*) FROM committed) = cardinality(%(payload_seq)s))
    THEN holds
        --+ -- Where no event is written, this is what undoes the statement: a division by zero.
        --+ OR 1 / holds::integer = 1
    ELSE {kept_away} END

-- name: look
-- For each place: the effect, or nulls where none is, the head of its run or else of the run given, and the time.
-- With sheets: in the first row also an item for each sheet that is asked for, so that what was not read is not taken
-- for what is not there. All of it is of one moment.
SELECT {effect},
    (SELECT {head} FROM indelible_runs r
        WHERE tenant = place.tenant AND run_id = coalesce(e.run_id, place.run_id)),
    coalesce(%(now)s::timestamptz, clock_timestamp())
    --+ , CASE place.number WHEN 1 THEN ARRAY(
    --+     SELECT {sheet} FROM unnest(%(sheet_kinds)s::text[], %(sheet_ids)s::text[])
    --+         WITH ORDINALITY AS wanted (kind, id, number)
    --+     LEFT JOIN LATERAL (
    --+         SELECT * FROM indelible_sheets
    --+         WHERE tenant = place.tenant AND kind = wanted.kind AND id = wanted.id LIMIT 1
    --+     ) AS s ON true
    --+     ORDER BY wanted.number) END
FROM unnest(%(tenants)s::text[], %(scopes)s::text[], %(keys)s::bytea[], %(run_ids)s::text[])
    WITH ORDINALITY AS place (tenant, scope, key, run_id, number)
LEFT JOIN LATERAL (
    SELECT * FROM indelible_effects WHERE tenant = place.tenant AND scope = place.scope AND key = place.key LIMIT 1
) AS e ON true
ORDER BY place.number

-- name: mark_awaited
-- Notes that somebody waits for the next move of effects that can still move.
UPDATE indelible_effects e SET awaited = true
FROM (
    SELECT * FROM unnest(%(tenants)s::text[], %(scopes)s::text[], %(keys)s::bytea[]) AS p (tenant, scope, key) OFFSET 0
) AS place
WHERE e.tenant = place.tenant AND e.scope = place.scope AND e.key = place.key AND NOT e.awaited
    AND e.status NOT IN ('succeeded', 'failed', 'denied', 'canceled')

-- name: lock_runs
-- Locks the runs given and those of some effects, in their order; gives those that are there.
SELECT wanted.run_id
FROM (
    SELECT run_id COLLATE "C" FROM unnest(%(run_ids)s::text[]) AS given (run_id)
    UNION
    SELECT (SELECT run_id FROM indelible_effects
        WHERE tenant = %(tenant)s::text AND scope = place.scope AND key = place.key)
    FROM unnest(%(scopes)s::text[], %(keys)s::bytea[]) AS place (scope, key)
    ORDER BY 1
) AS wanted (run_id)
WHERE (SELECT true FROM indelible_runs WHERE tenant = %(tenant)s AND run_id = wanted.run_id FOR UPDATE)

-- name: lock_effects
-- Locks effects, in the order given; gives for each whether it is there.
SELECT (
    SELECT true FROM indelible_effects
    WHERE tenant = %(tenant)s::text AND scope = place.scope AND key = place.key FOR UPDATE
)
FROM unnest(%(scopes)s::text[], %(keys)s::bytea[]) AS place (scope, key)

-- name: lock_sheets
-- Locks sheets, in the order given; gives the version of each. Where none is, the place is held by version 0, so that
-- others wait for us and we for nobody when it is written; what is not written is given up before the commit.
INSERT INTO indelible_sheets AS s (tenant, kind, id, version, status, topic)
SELECT %(tenant)s::text, wanted.kind, wanted.id, 0, '', ''
FROM unnest(%(sheet_kinds)s::text[], %(sheet_ids)s::text[]) AS wanted (kind, id)
ON CONFLICT (tenant, kind, id) DO UPDATE SET version = s.version
RETURNING version

-- name: give_up_sheets
-- Gives places up that were held for sheets which were not written.
DELETE FROM indelible_sheets s
USING (
    SELECT %(tenant)s::text AS tenant, w.*
    FROM unnest(%(sheet_kinds)s::text[], %(sheet_ids)s::text[]) AS w (kind, id)
    OFFSET 0
) AS held
WHERE s.tenant = held.tenant AND s.kind = held.kind AND s.id = held.id AND s.version = 0

-- name: list_sheets
-- Sheets that fit a filter, with what is on them; a null does not filter. {way} names the index to take, {order} how.
SELECT {sheet}
FROM indelible_sheets s
WHERE {way} AND kind = %(kind)s::text
    AND (%(id)s::text IS NULL OR id = %(id)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
    AND (%(topic)s::text IS NULL OR topic = %(topic)s)
    AND (%(due_by)s::timestamptz IS NULL OR due_at <= %(due_by)s)
ORDER BY {order} LIMIT %(limit)s::bigint

-- name: list_any_runs
-- Runs that have events, as sheets; of one that was never started, its newest event. {way} names the index to take.
SELECT ROW(
    ROW(r.tenant, 'run'::text, r.run_id, coalesce(s.version, 0), coalesce(s.status, %(unstarted)s::text),
        coalesce(s.topic, ''), NULL::timestamptz, r.run_id, coalesce(s.seq, r.count - 1), NULL::bytea, r.begun_at,
        NULL::bytea),
    ROW((SELECT p.value FROM indelible_payloads p
            WHERE p.tenant = r.tenant AND p.run_id = r.run_id AND p.seq = s.seq AND p.field = 'run'),
        (SELECT p.salt FROM indelible_payloads p
            WHERE p.tenant = r.tenant AND p.run_id = r.run_id AND p.seq = s.seq AND p.field = 'run'),
        (SELECT e.body FROM indelible_events e
            WHERE e.tenant = r.tenant AND e.run_id = r.run_id AND e.seq = coalesce(s.seq, r.count - 1))))
FROM indelible_runs r
LEFT JOIN LATERAL (
    SELECT version, status, topic, seq FROM indelible_sheets
    WHERE tenant = r.tenant AND kind = 'run' AND id = r.run_id AND version > 0
    OFFSET 0
) AS s ON true
WHERE {way} AND left(r.run_id, length(%(own)s::text)) <> %(own)s AND (%(status)s::text IS NULL OR s.version IS NULL)
ORDER BY r.begun_at DESC, r.run_id DESC LIMIT %(limit)s::bigint

-- name: has_event
-- Was this event written?
SELECT FROM indelible_events
WHERE tenant = %(tenant)s::text AND run_id = %(run_id)s::text AND seq = %(seq)s::bigint AND hash = %(hash)s::bytea

-- name: heartbeat
-- A longer lease, for the holder of the claim only, as long as the lease has not run out. Gives a row if it is.
UPDATE indelible_effects
SET lease_until = greatest(lease_until, coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease)s::interval)
WHERE tenant = %(tenant)s::text AND scope = %(scope)s::text AND key = %(key)s::bytea
    AND token_hash = %(token)s::bytea AND attempt = %(attempt)s::bigint AND status = 'processing'
    AND lease_until > coalesce(%(now)s::timestamptz, clock_timestamp())
RETURNING 1

-- name: find_ids
-- The effects whose ids lie in a range; two are enough to see that a prefix is ambiguous.
SELECT {effect}
FROM indelible_effects e
WHERE tenant COLLATE "POSIX" = %(tenant)s::text AND id >= %(first)s::text AND id < %(last)s::text ORDER BY id LIMIT 2

-- name: find_key
-- The effect with a key whose scope is not known.
SELECT {effect}
FROM indelible_effects e
WHERE tenant = %(tenant)s::text AND key = %(key)s::bytea LIMIT 2

-- name: list_effects
-- Effects that fit a filter, newest first; a null does not filter.
SELECT {effect}
FROM indelible_effects e
WHERE tenant COLLATE "POSIX" = %(tenant)s::text
    AND (%(before)s::text IS NULL OR id < %(before)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
    AND (%(tool)s::text IS NULL OR tool = %(tool)s)
    AND (%(run_id)s::text IS NULL OR run_id = %(run_id)s)
    AND (%(side_effect)s::text IS NULL OR side_effect = %(side_effect)s)
ORDER BY id DESC LIMIT %(limit)s::bigint

-- name: list_outlines
-- Effects without what they recorded, newest first, in a range of ids.
SELECT id, run_id, tool, side_effect, status, attempt, approval_id, created_at, updated_at, digest
FROM indelible_effects
WHERE tenant COLLATE "POSIX" = %(tenant)s::text AND id >= %(since)s::text AND id < %(before)s::text
ORDER BY id DESC LIMIT %(limit)s::bigint

-- name: list_alike
-- Effects that say the same, in whatever run and under whatever key.
SELECT id, run_id, tool, side_effect, status, attempt, approval_id, created_at, updated_at, digest
FROM indelible_effects
WHERE tenant COLLATE "POSIX" = %(tenant)s::text AND digest = ANY(%(digests)s::bytea[])
    AND side_effect NOT IN ('none', 'read') AND created_at >= %(since)s::timestamptz
LIMIT %(limit)s::bigint

-- name: list_abandoned
-- Effects that a probe or a person has to see to, oldest first.
SELECT {effect}
FROM indelible_effects e
WHERE tenant COLLATE "POSIX" = %(tenant)s::text
    AND (status = 'in_doubt'
        OR status = 'processing' AND lease_until <= coalesce(%(now)s::timestamptz, clock_timestamp()))
ORDER BY id LIMIT %(limit)s::bigint

-- name: list_events
-- A run's events after a number, in order.
SELECT run_id, seq, effect_id, type, hash, body, signature, mac FROM indelible_events
WHERE tenant = %(tenant)s::text AND run_id = %(run_id)s::text AND seq > %(after)s::bigint
ORDER BY seq LIMIT %(limit)s::bigint

-- name: list_payloads
-- What some events of a run commit to and what has not been erased.
SELECT run_id, seq, field, salt, value, mac FROM indelible_payloads
WHERE tenant = %(tenant)s::text AND run_id = %(run_id)s::text AND seq = ANY (%(seqs)s::bigint[])
ORDER BY seq, field

-- name: erase_payloads
-- Values that events commit to, gone. Only in a transaction that also writes the event which tells of it.
DELETE FROM indelible_payloads p
USING (
    SELECT %(tenant)s::text AS tenant, g.*
    FROM unnest(%(run_ids)s::text[], %(seqs)s::bigint[], %(fields)s::text[]) AS g (run_id, seq, field)
    OFFSET 0
) AS gone
WHERE p.tenant = gone.tenant AND p.run_id = gone.run_id AND p.seq = gone.seq AND p.field = gone.field

-- name: erase_digests
-- The digests of effects that events opened, gone with their arguments.
UPDATE indelible_effects e SET digest = decode(repeat('00', 32), 'hex')
FROM (
    SELECT v.tenant, v.effect_id, v.seq
    FROM (
        SELECT %(tenant)s::text AS tenant, g.*
        FROM unnest(%(run_ids)s::text[], %(seqs)s::bigint[], %(fields)s::text[]) AS g (run_id, seq, field)
        OFFSET 0
    ) AS gone
    JOIN indelible_events v ON v.tenant = gone.tenant AND v.run_id = gone.run_id AND v.seq = gone.seq
    WHERE gone.field = 'args'
    OFFSET 0
) AS opened
WHERE e.tenant = opened.tenant AND e.id = opened.effect_id AND e.opened_seq = opened.seq
RETURNING {effect}

-- name: put_macs
-- The macs of effects whose digests were erased.
WITH put AS (
    UPDATE indelible_effects e SET mac = m.mac
    FROM (
        SELECT %(tenant)s::text AS tenant, m.*
        FROM unnest(%(ids)s::text[], %(macs)s::bytea[]) AS m (id, mac) OFFSET 0
    ) AS m
    WHERE e.tenant = m.tenant AND e.id = m.id
    RETURNING 1
)
SELECT WHERE CASE WHEN (SELECT count(*) FROM put) = cardinality(%(ids)s) THEN true ELSE {kept_away} END

-- name: check_erased
-- Undoes an erasure if something is still there that it was to erase. Not counted: another may have erased it before us.
WITH gone AS MATERIALIZED (
    SELECT %(tenant)s::text AS tenant, g.*
    FROM unnest(%(run_ids)s::text[], %(seqs)s::bigint[], %(fields)s::text[]) AS g (run_id, seq, field)
)
SELECT WHERE CASE WHEN EXISTS (
    SELECT FROM gone CROSS JOIN LATERAL (
        SELECT FROM indelible_payloads
        WHERE tenant = gone.tenant AND run_id = gone.run_id AND seq = gone.seq AND field = gone.field LIMIT 1) AS p
) OR EXISTS (
    SELECT FROM gone CROSS JOIN LATERAL (
        SELECT effect_id FROM indelible_events
        WHERE tenant = gone.tenant AND run_id = gone.run_id AND seq = gone.seq LIMIT 1) AS v
    CROSS JOIN LATERAL (
        SELECT FROM indelible_effects
        WHERE tenant = gone.tenant AND id = v.effect_id AND opened_seq = gone.seq
            AND digest <> decode(repeat('00', 32), 'hex') LIMIT 1) AS e
    WHERE gone.field = 'args'
) THEN {kept_away} ELSE true END

-- name: find_subject
-- Places of the events that opened effects about a subject.
SELECT run_id, seq FROM indelible_payloads
WHERE tenant = %(tenant)s::text AND field = 'subject' AND value = %(subject)s::bytea ORDER BY run_id, seq

-- name: list_prunable
-- Effects that ended before a moment and whose arguments or detail are still there, oldest first, and where what they
-- committed to begins. Only if somebody was asked can it have begun before the arguments that are told now.
SELECT id, run_id,
    CASE WHEN approval_id IS NULL THEN opened_seq ELSE (SELECT min(v.seq) FROM indelible_events v
        WHERE v.tenant = e.tenant AND v.run_id = e.run_id AND v.effect_id = e.id) END
FROM indelible_effects e
WHERE tenant = %(tenant)s::text AND id > %(after)s::text AND updated_at < %(before)s::timestamptz
    AND status IN ('succeeded', 'failed', 'denied', 'canceled')
    AND EXISTS (SELECT FROM indelible_payloads p
        WHERE p.tenant = e.tenant AND p.run_id = e.run_id AND p.seq IN (e.opened_seq, e.detail_seq))
ORDER BY id LIMIT %(limit)s::bigint

-- name: list_refusals
-- Events that tell of calls that were refused before they were effects, and that still have payloads.
SELECT run_id, seq, effect_id, type, hash, body, signature, mac FROM indelible_events e
WHERE tenant = %(tenant)s::text AND type = 'policy_checked' AND effect_id IS NULL
    AND (run_id, seq) > (%(run_id)s::text, %(seq)s::bigint)
    AND EXISTS (SELECT FROM indelible_payloads p WHERE p.tenant = e.tenant AND p.run_id = e.run_id AND p.seq = e.seq)
ORDER BY run_id, seq LIMIT %(limit)s::bigint

-- name: drop_sheets
-- Sheets that no event commits to, those that nobody changed since; gives how many.
WITH dropped AS (
    DELETE FROM indelible_sheets s
    USING unnest(%(kinds)s::text[], %(ids)s::text[], %(versions)s::bigint[]) AS v (kind, id, version)
    WHERE s.tenant = %(tenant)s::text AND s.kind = v.kind AND s.id = v.id AND s.version = v.version
    RETURNING 1
)
SELECT count(*) FROM dropped

-- name: list_holds
-- Events that placed and lifted legal holds.
SELECT run_id, seq, effect_id, type, hash, body, signature, mac FROM indelible_events
WHERE tenant = %(tenant)s::text AND type IN ('hold_placed', 'hold_lifted') ORDER BY run_id, seq

-- name: redaction_check
-- What the ledger keeps to know its redaction key again.
SELECT key_check FROM indelible_redaction

-- name: keep_redaction_check
-- The first redaction key stays the ledger's.
INSERT INTO indelible_redaction (only_row, key_check) VALUES (1, %(check)s::text) ON CONFLICT DO NOTHING

-- name: clear_payloads
-- Clears deleted payloads away, out of the table and of what the server moved aside because it was large.
VACUUM indelible_payloads

-- name: clear_effects
-- Clears older versions of effects away.
VACUUM indelible_effects

-- name: clear_sheets
-- Clears dropped messages and notes away.
VACUUM indelible_sheets

-- name: running_transactions
-- The oldest transaction that still runs, in any database of the server, and the one that comes next.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint

-- name: rewrite_payloads
-- Writes the payloads into a new file; nobody else can use the table meanwhile.
VACUUM (FULL) indelible_payloads

-- name: rewrite_effects
-- Writes the effects into a new file; nobody else can use the table meanwhile.
VACUUM (FULL) indelible_effects

-- name: rewrite_sheets
-- Writes the sheets into a new file; nobody else can use the table meanwhile.
VACUUM (FULL) indelible_sheets

-- name: has_pending
-- A row if an event waits to be integrated.
SELECT FROM indelible_pending WHERE tenant = %(tenant)s::text LIMIT 1

-- name: count_pending
-- How many events wait to be integrated.
SELECT count(*) FROM indelible_pending WHERE tenant = %(tenant)s::text

-- name: lock_tree
-- A journal's tree as it is, for one integrator at a time.
SELECT size, root FROM indelible_trees WHERE tenant = %(tenant)s::text FOR UPDATE

-- name: plant_tree
-- The empty tree, unless there is one.
INSERT INTO indelible_trees (tenant, size, root) VALUES (%(tenant)s::text, 0, %(root)s::bytea)
ON CONFLICT (tenant) DO NOTHING

-- name: take_pending
-- Takes events that wait to be integrated, each run's in their order, with the rows of those events. Not of barred runs.
WITH waiting AS MATERIALIZED (
    SELECT ctid AS place, run_id, seq, hash FROM indelible_pending
    WHERE tenant = %(tenant)s::text AND run_id <> ALL (%(barred)s::text[])
    ORDER BY run_id, seq LIMIT %(most)s::bigint
), taken AS (
    DELETE FROM indelible_pending WHERE ctid = ANY (ARRAY(SELECT place FROM waiting)) RETURNING 1
)
SELECT w.run_id, w.seq, w.hash, e.body, e.mac
FROM waiting w LEFT JOIN LATERAL (
    SELECT body, mac FROM indelible_events WHERE tenant = %(tenant)s AND run_id = w.run_id AND seq = w.seq LIMIT 1
) AS e ON %(is_examined)s::boolean
WHERE CASE WHEN (SELECT count(*) FROM taken) = (SELECT count(*) FROM waiting) THEN true ELSE {kept_away} END
ORDER BY w.run_id, w.seq

-- name: grow_tree
-- The tree after it has grown: the places of events, tiles that are new or wider, size and root.
WITH placed AS (
    INSERT INTO indelible_leaves (tenant, leaf, run_id, seq, hash)
    SELECT %(tenant)s::text, %(was_size)s::bigint + number - 1, run_id, seq, hash
    FROM unnest(%(run_ids)s::text[], %(seqs)s::bigint[], %(hashes)s::bytea[])
        WITH ORDINALITY AS l (run_id, seq, hash, number)
    RETURNING 1
), laid AS (
    INSERT INTO indelible_tiles (tenant, level, number, hashes)
    SELECT %(tenant)s, t.* FROM unnest(%(levels)s::bigint[], %(numbers)s::bigint[], %(tiles)s::bytea[]) AS t
    ON CONFLICT (tenant, level, number) DO UPDATE SET hashes = excluded.hashes
    RETURNING 1
), grown AS (
    UPDATE indelible_trees SET size = %(size)s::bigint, root = %(root)s::bytea WHERE tenant = %(tenant)s
    RETURNING 1
)
SELECT WHERE CASE WHEN (SELECT count(*) FROM placed) = cardinality(%(seqs)s)
        AND (SELECT count(*) FROM laid) = cardinality(%(levels)s) AND (SELECT count(*) FROM grown) = 1
    THEN true ELSE {kept_away} END

-- name: clear_pending
-- Clears away the rows that were taken. The file keeps its size: to cut it off, writers would have to wait.
VACUUM (SKIP_LOCKED, TRUNCATE false) indelible_pending

-- name: tree
-- A journal's tree as it is.
SELECT size, root FROM indelible_trees WHERE tenant = %(tenant)s::text

-- name: tile
-- One tile.
SELECT hashes FROM indelible_tiles
WHERE tenant = %(tenant)s::text AND level = %(level)s::bigint AND number = %(number)s::bigint

-- name: list_entries
-- Entries of the tree from an index on, with their events.
SELECT l.leaf, l.run_id, l.seq, l.hash, e.body, e.signature, e.mac
FROM (
    SELECT * FROM indelible_leaves
    WHERE tenant = %(tenant)s::text AND leaf >= %(start)s::bigint AND leaf < %(end)s::bigint ORDER BY leaf OFFSET 0
) AS l
CROSS JOIN LATERAL (
    SELECT body, signature, mac FROM indelible_events
    WHERE tenant = l.tenant AND run_id = l.run_id AND seq = l.seq LIMIT 1
) AS e
ORDER BY l.leaf

-- name: leaf_of
-- The place of an event in the tree.
SELECT leaf FROM indelible_leaves
WHERE tenant = %(tenant)s::text AND run_id = %(run_id)s::text AND seq = %(seq)s::bigint

-- name: put_head
-- A signed head; one of the same size is replaced by the one with more signatures. A head of more than the tree has was
-- signed while an older database was put in this one's place.
WITH fitting AS MATERIALIZED (
    SELECT FROM indelible_trees WHERE tenant = %(tenant)s::text AND size >= %(size)s::bigint
), kept AS (
    INSERT INTO indelible_heads (tenant, size, note, at)
    SELECT %(tenant)s, %(size)s, %(note)s::text, %(at)s::timestamptz FROM fitting
    ON CONFLICT (tenant, size) DO UPDATE SET note = excluded.note, at = excluded.at
    RETURNING 1
)
SELECT WHERE CASE WHEN (SELECT count(*) FROM kept) = (SELECT count(*) FROM fitting) THEN true ELSE {kept_away} END

-- name: list_heads
-- Signed heads, the largest first.
SELECT note FROM indelible_heads
WHERE tenant = %(tenant)s::text AND size <= coalesce(%(up_to)s::bigint, 9223372036854775807)
ORDER BY size DESC LIMIT %(limit)s::bigint

-- name: list_pending
-- Events that wait to be integrated.
SELECT run_id, seq, hash FROM indelible_pending WHERE tenant = %(tenant)s::text LIMIT %(limit)s::bigint

-- name: list_runs
-- The ends of runs' chains, by name.
SELECT run_id, count, head FROM indelible_runs
WHERE tenant = %(tenant)s::text AND run_id > %(after)s::text ORDER BY run_id LIMIT %(limit)s::bigint

-- name: list_tenants
-- Whoever has events: from tenant to tenant, without reading all their runs.
WITH RECURSIVE found (tenant) AS (
    (SELECT tenant FROM indelible_runs ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT r.tenant FROM indelible_runs r WHERE r.tenant > found.tenant ORDER BY r.tenant LIMIT 1)
    FROM found WHERE found.tenant IS NOT NULL
)
SELECT tenant FROM found WHERE tenant IS NOT NULL

-- name: say_changed
-- Tells whoever listens which effects changed; nobody waits for a disk, for a lost call is found by looking.
SELECT pg_notify('indelible', %(payload)s::text), set_config('synchronous_commit', 'off', true)

-- name: introduce
-- What a new connection has to know about the server: who really answers, and whether a commit is on the disk.
-- And whether rows are shown by tenant only, and whether it tells warnings.
SELECT pg_backend_pid()::bigint, current_setting('synchronous_commit'),
    coalesce((SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('indelible_effects')), false),
    current_setting('client_min_messages') <> 'error'

-- name: act_for
-- Says for which tenant a connection works, where rows are shown by that.
SELECT set_config('indelible.tenant', %(tenant)s::text, false)

-- name: secure_rows
-- Lets nobody see or write a row of another tenant than the one their connection works for, the owner included.
DO $secure$
DECLARE
    found text;
BEGIN
    FOR found IN
        SELECT c.relname FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'p') AND c.relnamespace = (SELECT relnamespace FROM pg_class
            WHERE oid = to_regclass('indelible_effects')) AND c.relname LIKE 'indelible\_%'
        ORDER BY 1
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', found);
        EXECUTE format('DROP POLICY IF EXISTS indelible_tenant ON %I', found);
        EXECUTE format('CREATE POLICY indelible_tenant ON %I USING (tenant = current_setting(''indelible.tenant'', true))',
            found);
    END LOOP;
END
$secure$

-- name: settle_in
-- Settings of a connection of our own: a commit is durable or says that it may not be, and kept plans use indexes, however
-- empty a table was.
SELECT set_config('synchronous_commit', %(synchronous_commit)s::text, false),
    set_config('client_min_messages', 'warning', false),
    set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false), set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false), set_config('jit', 'off', false)

-- name: read_mark
-- Is this still the transaction that was begun for the handler?
SELECT current_setting('indelible.mark', true)

-- name: has_migrations_table
-- Is there a schema at all?
SELECT to_regclass('indelible_migrations') IS NOT NULL

-- name: list_migrations
-- The numbers of the migrations that were applied.
SELECT number FROM indelible_migrations ORDER BY number

-- name: make_migrations_table
-- The table that remembers migrations.
CREATE TABLE IF NOT EXISTS indelible_migrations (
    number     bigint PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    applied_at timestamptz NOT NULL
)

-- name: lock_migrations
-- Lets one migrator work at a time.
LOCK TABLE indelible_migrations IN ACCESS EXCLUSIVE MODE

-- name: note_migration
-- Remembers a migration.
INSERT INTO indelible_migrations (number, name, applied_at)
VALUES (%(number)s::bigint, %(name)s::text, clock_timestamp())

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
SELECT (SELECT body FROM indelible_sheets WHERE tenant = %(tenant)s::text AND kind = 'origin' AND id = 'journal')

-- name: read_durability
-- How safe a commit is on this server.
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
    current_setting('full_page_writes'), current_setting('synchronous_standby_names')

-- name: list_added
-- Triggers, rules and row policies that users added to the ledger's tables: each can keep rows away.
SELECT added.kind || ' ' || added.name || ' on ' || c.relname
FROM pg_class c
JOIN (
    SELECT tgrelid AS place, 'trigger' AS kind, tgname AS name FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT ev_class, 'rule', rulename FROM pg_rewrite
    UNION ALL SELECT polrelid, 'row policy', polname FROM pg_policy WHERE polname <> 'indelible_tenant'
) AS added ON added.place = c.oid
WHERE c.relkind IN ('r', 'p') AND c.relname LIKE 'indelible\_%'
    AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('indelible_effects'))
ORDER BY 1

-- name: list_standbys
-- The standbys connected now and what each is good for.
SELECT application_name, state, sync_state FROM pg_stat_replication ORDER BY application_name
