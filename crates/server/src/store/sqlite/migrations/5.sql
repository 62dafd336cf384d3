-- Sessions have numbers, which messages and runs name them by, and parts are found by their messages' numbers and their
-- places: what is written with every step has few indices, and small ones.
ALTER TABLE session RENAME TO old_session;
ALTER TABLE message RENAME TO old_message;
ALTER TABLE part RENAME TO old_part;
ALTER TABLE run RENAME TO old_run;
ALTER TABLE run_event RENAME TO old_run_event;

CREATE TABLE session (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    client TEXT,
    agent TEXT,
    -- The session that it came from.
    parent TEXT,
    updated INTEGER NOT NULL,
    -- Of the session, its messages and parts, its runs and events.
    bytes INTEGER NOT NULL,
    content TEXT NOT NULL
) STRICT;

INSERT INTO session (id, client, agent, parent, updated, bytes, content)
SELECT id, client, agent, parent, updated, bytes, content FROM old_session ORDER BY rowid;

CREATE TABLE message (
    -- The order in which messages were first saved.
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (number) ON DELETE CASCADE,
    id TEXT NOT NULL,
    -- The user's message that an assistant's answers; NULL for a user's.
    parent TEXT,
    created INTEGER NOT NULL,
    -- 1 while an assistant's message is not complete. 1 for a user's that wants a reply, until one is saved; if that was
    -- saved before it, for ever.
    unanswered INTEGER NOT NULL,
    role TEXT NOT NULL,
    UNIQUE (session, id)
) STRICT;

INSERT INTO message (number, session, id, parent, created, unanswered, role)
SELECT old.number, session.number, old.id, old.parent, old.created, old.unanswered, old.role
FROM old_message AS old JOIN session ON session.id = old.session ORDER BY old.number;

CREATE TABLE part (
    -- The message's number in front of the part's place, which has the last 24 bits.
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

INSERT INTO part (number, id, body)
SELECT message << 24 | place, id, body FROM old_part ORDER BY message, place;

CREATE TABLE run (
    -- The order in which runs were first saved.
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (number) ON DELETE CASCADE,
    id TEXT NOT NULL,
    -- 1 from when a run is started until it is over.
    unfinished INTEGER NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (session, id)
) STRICT;

INSERT INTO run (number, session, id, unfinished, content)
SELECT old.number, session.number, old.id, old.unfinished, old.content
FROM old_run AS old JOIN session ON session.id = old.session ORDER BY old.number;

CREATE TABLE run_event (
    run INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE,
    -- Counted from 0, without gaps.
    number INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;

INSERT INTO run_event (run, number, event) SELECT run, number, event FROM old_run_event ORDER BY run, number;

DROP TABLE old_run_event;
DROP TABLE old_run;
DROP TABLE old_part;
DROP TABLE old_message;
DROP TABLE old_session;

CREATE INDEX session_updated ON session (updated, id);
CREATE INDEX session_client ON session (client, updated, id) WHERE client IS NOT NULL;
CREATE INDEX session_agent ON session (agent, updated, id) WHERE agent IS NOT NULL;
CREATE INDEX session_parent ON session (parent, updated, id) WHERE parent IS NOT NULL;

-- Every index ends with the row's number: this one is a session's messages in their order.
CREATE INDEX message_order ON message (session);
CREATE INDEX message_unanswered ON message (unanswered) WHERE unanswered;

CREATE INDEX run_order ON run (session);
CREATE INDEX run_unfinished ON run (unfinished) WHERE unfinished;

-- Its parts go with a message.
CREATE TRIGGER message_gone AFTER DELETE ON message BEGIN
    DELETE FROM part WHERE number >= old.number << 24 AND number < (old.number + 1) << 24;
END;
