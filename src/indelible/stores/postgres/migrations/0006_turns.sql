-- Turns: which turn of a conversation an effect was first called in, so that a later turn is told from a retry.

ALTER TABLE indelible_effects ADD COLUMN turn text;
