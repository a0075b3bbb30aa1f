-- Turns: which turn of a conversation an effect was first called in, so that a later turn is told from a retry.

ALTER TABLE indelible_effects ADD COLUMN turn text;

-- Runs: when each got its first event, so that every run is listed, the newest first, whether or not it was started.
-- No move of a run's head changes it, so a move still touches no index.
ALTER TABLE indelible_runs ADD COLUMN begun_at timestamptz NOT NULL DEFAULT clock_timestamp();

CREATE INDEX indelible_runs_newest ON indelible_runs (tenant COLLATE "POSIX", begun_at, run_id);
