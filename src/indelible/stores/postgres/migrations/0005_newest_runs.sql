-- The newest runs first: when a sheet was made, kept for those whose ids do not follow time, which are runs.

ALTER TABLE indelible_sheets ADD COLUMN created_at timestamptz;

-- A run was made when its first event of this type says. One whose event was altered comes last instead of nowhere.
-- Where rows are secured, the owner sees none of them either: the rule is lifted for these lines, and put back.
DO $fill$
DECLARE
    secured text[] := ARRAY(
        SELECT oid::regclass::text FROM pg_class
        WHERE oid IN ('indelible_sheets'::regclass, 'indelible_events'::regclass) AND relforcerowsecurity);
    one text;
BEGIN
    FOREACH one IN ARRAY secured LOOP
        EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', one);
    END LOOP;
    UPDATE indelible_sheets s SET created_at = coalesce((
        SELECT substring(encode(e.body, 'escape')
            FROM '"at":"(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z)"')::timestamptz
        FROM indelible_events e
        WHERE e.tenant = s.tenant AND e.run_id = s.id AND e.type = 'run_started'
        ORDER BY e.seq LIMIT 1
    ), to_timestamp(0))
    WHERE s.kind = 'run';
    FOREACH one IN ARRAY secured LOOP
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', one);
    END LOOP;
END
$fill$;

-- Rows only for runs, so that all other sheets are spared them. Which of them a search may take, it says by what it asks
-- for: `status = …` implies that there is a status, and one that asks for no status cannot take that index by mistake.
CREATE INDEX indelible_sheets_newest ON indelible_sheets (tenant COLLATE "POSIX", kind, created_at, id)
WHERE created_at IS NOT NULL;

CREATE INDEX indelible_sheets_newest_by_status ON indelible_sheets
    (tenant COLLATE "POSIX", kind, status, created_at, id) WHERE created_at IS NOT NULL AND status IS NOT NULL;

CREATE INDEX indelible_sheets_newest_by_topic ON indelible_sheets
    (tenant COLLATE "POSIX", kind, topic, created_at, id) WHERE created_at IS NOT NULL AND topic IS NOT NULL;
