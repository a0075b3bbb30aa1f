-- Macs: what shows that a holder of the ledger's writer keys wrote a row; and whether this ledger's rows carry them.

ALTER TABLE indelible_ledger ADD COLUMN has_macs bigint NOT NULL DEFAULT 0;

ALTER TABLE indelible_events ADD COLUMN mac bytea;

ALTER TABLE indelible_payloads ADD COLUMN mac bytea;

ALTER TABLE indelible_effects ADD COLUMN mac bytea;

ALTER TABLE indelible_sheets ADD COLUMN mac bytea;
