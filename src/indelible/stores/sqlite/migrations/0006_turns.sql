-- Turns: which turn of a conversation an effect was first called in, so that a later turn is told from a retry.

ALTER TABLE indelible_effects ADD COLUMN turn TEXT;

-- The same call elsewhere: in another run, or under another key. Reads are left out, so that their writes are spared it.
CREATE INDEX indelible_effects_by_digest ON indelible_effects (tenant, digest)
WHERE side_effect NOT IN ('none', 'read');
