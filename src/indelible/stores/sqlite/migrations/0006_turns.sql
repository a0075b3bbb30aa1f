-- Turns: which turn of a conversation an effect was first called in, so that a later turn is told from a retry.

ALTER TABLE indelible_effects ADD COLUMN turn TEXT;

-- The same call elsewhere: in another run, or under another key. Reads are left out, so that their writes are spared it.
CREATE INDEX indelible_effects_by_digest ON indelible_effects (tenant, digest)
WHERE side_effect NOT IN ('none', 'read');

-- Runs: when each got its first event, so that every run is listed, the newest first, whether or not it was started.
ALTER TABLE indelible_runs ADD COLUMN begun_at INTEGER NOT NULL DEFAULT 0;

-- A run whose first event was altered comes last instead of nowhere.
UPDATE indelible_runs SET begun_at = coalesce((
    SELECT unixepoch(substr(at, 1, 19)) * 1000000 + CAST(substr(at, 21, 6) AS INTEGER)
    FROM (
        SELECT CASE WHEN json_valid(CAST(e.body AS TEXT)) THEN json_extract(CAST(e.body AS TEXT), '$.at') END AS at
        FROM indelible_events e
        WHERE e.tenant = indelible_runs.tenant AND e.run_id = indelible_runs.run_id AND e.seq = 0
    )
), 0);

CREATE INDEX indelible_runs_newest ON indelible_runs (tenant, begun_at, run_id);
