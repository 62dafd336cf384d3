-- What a session takes is in its own row, written with whatever changes it; the sums are made when the file is opened.
-- Sessions are looked for by the one they came from, too.
DROP TRIGGER kept_more;
DROP TRIGGER kept_less;
DROP TRIGGER kept_bytes;
DROP TRIGGER session_kept;
DROP TRIGGER session_content;
DROP TRIGGER session_client;
DROP TRIGGER session_gone;
DROP TRIGGER message_kept;
DROP TRIGGER message_role;
DROP TRIGGER message_gone;
DROP TRIGGER part_kept;
DROP TRIGGER part_body;
DROP TRIGGER part_gone;
DROP TRIGGER run_kept;
DROP TRIGGER run_content;
DROP TRIGGER run_event_kept;

-- Of the session, its messages and parts, its runs and events.
ALTER TABLE session ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN parent TEXT;

UPDATE session SET bytes = coalesce((SELECT bytes FROM kept WHERE kept.session = session.id), 0);
UPDATE session SET parent = json_extract(content, '$.parent') WHERE json_valid(content);

DROP TABLE kept;
DROP TABLE usage;

CREATE INDEX session_parent ON session (parent, updated, id) WHERE parent IS NOT NULL;
