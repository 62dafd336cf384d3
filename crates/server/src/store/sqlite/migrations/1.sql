-- Columns are what is looked for and sorted by. The rest is JSON: the serde form of the core's types.

CREATE TABLE session (
    id TEXT NOT NULL PRIMARY KEY,
    client TEXT,
    updated INTEGER NOT NULL,
    content TEXT NOT NULL
) STRICT;

CREATE INDEX session_updated ON session (updated, id);
CREATE INDEX session_client ON session (client, updated, id) WHERE client IS NOT NULL;

CREATE TABLE message (
    -- The order in which messages were first saved.
    number INTEGER PRIMARY KEY,
    session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    -- The user's message that an assistant's answers; NULL for a user's.
    parent TEXT,
    created INTEGER NOT NULL,
    -- 1 while an assistant's message is not complete, or a user's wants a reply and has none.
    unanswered INTEGER NOT NULL,
    role TEXT NOT NULL,
    UNIQUE (session, id)
) STRICT;

-- Every index ends with the row's number: this one is a session's messages in their order.
CREATE INDEX message_order ON message (session);
CREATE INDEX message_parent ON message (session, parent) WHERE parent IS NOT NULL;
CREATE INDEX message_unanswered ON message (unanswered) WHERE unanswered;

CREATE TABLE part (
    message INTEGER NOT NULL REFERENCES message (number) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (message, place)
) STRICT;

CREATE TABLE call (
    request TEXT NOT NULL PRIMARY KEY,
    -- The order in which calls ended; NULL while a call is under way.
    ended INTEGER,
    -- About how many bytes the row takes.
    size INTEGER NOT NULL,
    -- No reference: calls are made for sessions that are kept elsewhere, too.
    session TEXT NOT NULL,
    client TEXT NOT NULL,
    head TEXT NOT NULL,
    input TEXT NOT NULL,
    ending TEXT
) STRICT;

CREATE INDEX call_ended ON call (ended, size) WHERE ended IS NOT NULL;
CREATE INDEX call_client ON call (client, ended) WHERE ended IS NOT NULL;
CREATE INDEX call_session ON call (session, ended) WHERE ended IS NOT NULL;
