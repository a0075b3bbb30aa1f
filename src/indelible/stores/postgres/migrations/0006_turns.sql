-- Turns: which turn of a conversation an effect was first called in, so that a later turn is told from a retry.

ALTER TABLE indelible_effects ADD COLUMN turn text;

-- The same call elsewhere: in another run, or under another key. Reads are left out, so that their writes are spared it.
CREATE INDEX indelible_effects_by_digest ON indelible_effects (tenant COLLATE "POSIX", digest)
WHERE side_effect NOT IN ('none', 'read');

-- Runs: when each got its first event, so that every run is listed, the newest first, whether or not it was started.
-- No move of a run's head changes it, so a move still touches no index.
ALTER TABLE indelible_runs ADD COLUMN begun_at timestamptz NOT NULL DEFAULT clock_timestamp();

-- A run whose first event was altered comes last instead of nowhere. Where rows are secured, the owner sees none of them
-- either: the rule is lifted for these lines, and put back.
DO $fill$
DECLARE
    secured text[] := ARRAY(
        SELECT oid::regclass::text FROM pg_class
        WHERE oid IN ('indelible_runs'::regclass, 'indelible_events'::regclass) AND relforcerowsecurity);
    one text;
BEGIN
    FOREACH one IN ARRAY secured LOOP
        EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', one);
    END LOOP;
    UPDATE indelible_runs r SET begun_at = coalesce((
        SELECT substring(encode(e.body, 'escape')
            FROM '"at":"(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z)"')::timestamptz
        FROM indelible_events e WHERE e.tenant = r.tenant AND e.run_id = r.run_id AND e.seq = 0
    ), to_timestamp(0));
    FOREACH one IN ARRAY secured LOOP
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', one);
    END LOOP;
END
$fill$;

CREATE INDEX indelible_runs_newest ON indelible_runs (tenant COLLATE "POSIX", begun_at, run_id);
