-- The newest runs first: when a sheet was made, kept for those whose ids do not follow time, which are runs.

ALTER TABLE indelible_sheets ADD COLUMN created_at INTEGER;

-- A run was made when its first event of this type says. One whose event was altered comes last instead of nowhere.
UPDATE indelible_sheets SET created_at = coalesce((
    SELECT unixepoch(substr(at, 1, 19)) * 1000000 + CAST(substr(at, 21, 6) AS INTEGER)
    FROM (
        SELECT CASE WHEN json_valid(CAST(e.body AS TEXT)) THEN json_extract(CAST(e.body AS TEXT), '$.at') END AS at
        FROM indelible_events e
        WHERE e.tenant = indelible_sheets.tenant AND e.run_id = indelible_sheets.id AND e.type = 'run_started'
        ORDER BY e.seq LIMIT 1
    )
), 0)
WHERE kind = 'run';

-- Rows only for runs, so that all other sheets are spared them.
CREATE INDEX indelible_sheets_newest ON indelible_sheets (tenant, kind, created_at, id) WHERE created_at IS NOT NULL;

CREATE INDEX indelible_sheets_newest_by_status ON indelible_sheets (tenant, kind, status, created_at, id)
WHERE created_at IS NOT NULL;

CREATE INDEX indelible_sheets_newest_by_topic ON indelible_sheets (tenant, kind, topic, created_at, id)
WHERE created_at IS NOT NULL;
