-- Turns and calls outlive the process that began them.

-- 1 for a user's message while a turn answers it. Messages of earlier versions that are 1 say too little to go on with:
-- answers that are not complete, and users' messages without one.
ALTER TABLE message RENAME COLUMN unanswered TO open;

UPDATE message SET open = 0 WHERE open AND parent IS NULL AND EXISTS
    (SELECT 1 FROM message AS answer WHERE answer.session = message.session AND answer.parent = message.id);

DROP INDEX message_unanswered;
CREATE INDEX message_open ON message (open) WHERE open;

-- The last offer of a call that its client may have seen; 0 for none.
ALTER TABLE call ADD COLUMN offered INTEGER NOT NULL DEFAULT 0;
-- What else is to be known of a call while it is open, as JSON; mostly NULL.
ALTER TABLE call ADD COLUMN state TEXT;

-- The first answer to a call that came too late, as JSON.
ALTER TABLE call ADD COLUMN late TEXT;

-- Earlier versions kept too little of open calls to go on with them.
UPDATE call SET
    ended = (SELECT coalesce(max(ended), 0) FROM call WHERE ended IS NOT NULL) + open.place,
    ending = '{"attempt":1,"phases":{"approval":{"secs":0,"nanos":0},"queue":{"secs":0,"nanos":0},"execute":{"secs":0,"nanos":0}},"outcome":{"Cancelled":{"Requested":"The server was restarted"}}}'
FROM (SELECT request, row_number() OVER (ORDER BY rowid) AS place FROM call WHERE ended IS NULL) AS open
WHERE call.request = open.request;

-- When a call ended, in milliseconds since 1970, and how many bytes the calls take that ended before it: the calls that are
-- too old are found without a look at the others.
ALTER TABLE call ADD COLUMN ended_at INTEGER;
ALTER TABLE call ADD COLUMN bytes_before INTEGER;

UPDATE call SET ended_at = unixepoch() * 1000, bytes_before = earlier.bytes
FROM (SELECT request, sum(size) OVER (ORDER BY ended ROWS UNBOUNDED PRECEDING) - size AS bytes FROM call) AS earlier
WHERE earlier.request = call.request;

DROP INDEX call_ended;
CREATE INDEX call_ended ON call (ended) WHERE ended IS NOT NULL;

-- Few calls are open at a time, so this index is small.
CREATE INDEX call_open ON call (ended) WHERE ended IS NULL;

-- The ids of calls that are no longer kept, and since when, in milliseconds since 1970. They are not used again for a day.
CREATE TABLE forgotten_call (
    request TEXT NOT NULL PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX forgotten_call_since ON forgotten_call (since);

-- Clients that have tools.
CREATE TABLE client (
    id TEXT NOT NULL PRIMARY KEY,
    content TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE client_tool (
    -- The order of registration.
    number INTEGER PRIMARY KEY,
    client TEXT NOT NULL REFERENCES client (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (client, name)
) STRICT;
