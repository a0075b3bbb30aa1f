-- Forgetting: finding a subject's payloads and legal holds again, and knowing the redaction key again.

-- Both indexes have rows only for what they are about, so that all other writes are spared them.
CREATE INDEX indelible_payloads_by_subject ON indelible_payloads (tenant, value) WHERE field = 'subject';

CREATE INDEX indelible_events_of_holds ON indelible_events (tenant, type) WHERE type IN ('hold_placed', 'hold_lifted');

CREATE TABLE indelible_redaction (
    only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
    key_check TEXT NOT NULL
) STRICT;
