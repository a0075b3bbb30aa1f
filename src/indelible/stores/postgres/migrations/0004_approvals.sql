-- Approvals: sheets, which are named pieces of state beside effects, and what an effect knows of them.

ALTER TABLE indelible_effects ADD COLUMN approval_id text COLLATE "C";  -- the newest approval that was asked for

ALTER TABLE indelible_effects ADD COLUMN charges bytea;                 -- what it has reserved of budgets

-- A budget changes with every call that it limits, and stays where it is in every index: its page has room for that.
CREATE TABLE indelible_sheets (
    tenant  text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    status  text COLLATE "C" NOT NULL,
    topic   text COLLATE "C" NOT NULL,
    due_at  timestamptz,        -- when somebody should look at it again
    run_id  text COLLATE "C",   -- the event that commits to what is on it, as the payload with the name of its kind
    seq     bigint,
    body    bytea,              -- what is on it, if no event commits to that
    PRIMARY KEY (tenant, kind, id)
) WITH (fillfactor = 50);

-- POSIX orders as C does, but a search by the primary key cannot take one of these by mistake, nor the other way round.
CREATE INDEX indelible_sheets_by_status ON indelible_sheets (tenant COLLATE "POSIX", kind, status, id);

CREATE INDEX indelible_sheets_by_topic ON indelible_sheets (tenant COLLATE "POSIX", kind, topic, id);

CREATE INDEX indelible_sheets_by_due ON indelible_sheets (tenant COLLATE "POSIX", kind, due_at, id)
WHERE due_at IS NOT NULL;

-- Each channel finds its own messages, however many wait for another one that is down.
CREATE INDEX indelible_sheets_by_channel ON indelible_sheets (tenant COLLATE "POSIX", topic, due_at, id)
WHERE kind = 'delivery' AND due_at IS NOT NULL;

-- Calls that were refused before they were effects, to be found when they are old.
CREATE INDEX indelible_events_of_refusals ON indelible_events (tenant, run_id, seq)
WHERE type = 'policy_checked' AND effect_id IS NULL;
