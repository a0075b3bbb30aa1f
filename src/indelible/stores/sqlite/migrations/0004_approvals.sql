-- Approvals: sheets, which are named pieces of state beside effects, and what an effect knows of them.

ALTER TABLE indelible_effects ADD COLUMN approval_id TEXT;  -- the newest approval that was asked for

ALTER TABLE indelible_effects ADD COLUMN charges BLOB;      -- what it has reserved of budgets

CREATE TABLE indelible_sheets (
    tenant  TEXT NOT NULL,
    kind    TEXT NOT NULL,
    id      TEXT NOT NULL,
    version INTEGER NOT NULL,
    status  TEXT NOT NULL,
    topic   TEXT NOT NULL,
    due_at  INTEGER,            -- when somebody should look at it again
    run_id  TEXT,               -- the event that commits to what is on it, as the payload with the name of its kind
    seq     INTEGER,
    body    BLOB,               -- what is on it, if no event commits to that
    PRIMARY KEY (tenant, kind, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX indelible_sheets_by_status ON indelible_sheets (tenant, kind, status, id);

CREATE INDEX indelible_sheets_by_topic ON indelible_sheets (tenant, kind, topic, id);

CREATE INDEX indelible_sheets_by_due ON indelible_sheets (tenant, kind, due_at, id) WHERE due_at IS NOT NULL;

-- Each channel finds its own messages, however many wait for another one that is down.
CREATE INDEX indelible_sheets_by_channel ON indelible_sheets (tenant, topic, due_at, id)
WHERE kind = 'delivery' AND due_at IS NOT NULL;

-- Calls that were refused before they were effects, to be found when they are old.
CREATE INDEX indelible_events_of_refusals ON indelible_events (tenant, run_id, seq)
WHERE type = 'policy_checked' AND effect_id IS NULL;
