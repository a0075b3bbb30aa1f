-- Turns: which turn of a conversation an effect was first called in, so that a later turn is told from a retry.

ALTER TABLE indelible_effects ADD COLUMN turn TEXT;

-- Runs: when each got its first event, so that every run is listed, the newest first, whether or not it was started.
ALTER TABLE indelible_runs ADD COLUMN begun_at INTEGER NOT NULL DEFAULT 0;

CREATE INDEX indelible_runs_newest ON indelible_runs (tenant, begun_at, run_id);
