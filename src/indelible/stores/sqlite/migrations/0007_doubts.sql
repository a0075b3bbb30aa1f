-- Doubts: which attempt may have happened before the newest one, so that no later report can deny it.

ALTER TABLE indelible_effects ADD COLUMN doubted INTEGER;
