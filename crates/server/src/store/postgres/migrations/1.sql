-- Columns are what is looked for and sorted by. The rest is JSON in text: the serde form of the core's types, to the byte.
-- Ids are compared byte by byte, whatever the language of the database is.

CREATE TABLE handback.session (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    client TEXT COLLATE "C",
    agent TEXT COLLATE "C",
    -- The session that it came from.
    parent TEXT COLLATE "C",
    updated BIGINT NOT NULL,
    -- Of the session, its messages and parts, its runs and events.
    bytes BIGINT NOT NULL,
    content TEXT NOT NULL
);

CREATE INDEX session_updated ON handback.session (updated, id);
CREATE INDEX session_client ON handback.session (client, updated, id) WHERE client IS NOT NULL;
CREATE INDEX session_agent ON handback.session (agent, updated, id) WHERE agent IS NOT NULL;
CREATE INDEX session_parent ON handback.session (parent, updated, id) WHERE parent IS NOT NULL;

CREATE TABLE handback.message (
    -- The order in which a session's messages were first saved.
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session BIGINT NOT NULL REFERENCES handback.session (number) ON DELETE CASCADE,
    id TEXT COLLATE "C" NOT NULL,
    -- The user's message that an assistant's answers; NULL for a user's.
    parent TEXT COLLATE "C",
    created BIGINT NOT NULL,
    -- Whether a turn answers the user's message.
    open BOOLEAN NOT NULL,
    role TEXT NOT NULL,
    UNIQUE (session, id)
);

CREATE INDEX message_order ON handback.message (session, number);
CREATE INDEX message_open ON handback.message (number) WHERE open;

CREATE TABLE handback.part (
    message BIGINT NOT NULL REFERENCES handback.message (number) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (message, place)
);

CREATE TABLE handback.run (
    -- The order in which a session's runs were first saved.
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session BIGINT NOT NULL REFERENCES handback.session (number) ON DELETE CASCADE,
    id TEXT COLLATE "C" NOT NULL,
    -- From when a run is started until it is over.
    unfinished BOOLEAN NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (session, id)
);

CREATE INDEX run_order ON handback.run (session, number);
CREATE INDEX run_unfinished ON handback.run (number) WHERE unfinished;

CREATE TABLE handback.run_event (
    run BIGINT NOT NULL REFERENCES handback.run (number) ON DELETE CASCADE,
    -- Counted from 0, without gaps.
    number BIGINT NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run, number)
);

CREATE SEQUENCE handback.call_end;

CREATE TABLE handback.call (
    request TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    -- The order in which calls were made.
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    -- The order in which calls ended; NULL while a call is open.
    ended BIGINT,
    ended_at TIMESTAMPTZ,
    -- About how many bytes the row takes.
    size BIGINT NOT NULL,
    -- No reference: calls are made for sessions that are kept elsewhere, too.
    session TEXT COLLATE "C" NOT NULL,
    client TEXT COLLATE "C" NOT NULL,
    head TEXT NOT NULL,
    input TEXT NOT NULL,
    -- The last offer that the client may have seen; 0 for none.
    offered BIGINT NOT NULL,
    -- What else is to be known of an open call; mostly NULL.
    state TEXT,
    ending TEXT,
    -- The first answer that came too late.
    late TEXT
);

CREATE INDEX call_open ON handback.call (number) WHERE ended IS NULL;
CREATE UNIQUE INDEX call_ended ON handback.call (ended) WHERE ended IS NOT NULL;
CREATE INDEX call_client ON handback.call (client, ended) WHERE ended IS NOT NULL;
CREATE INDEX call_session ON handback.call (session, ended) WHERE ended IS NOT NULL;

-- How many bytes the finished calls take: those up to a number are counted, and the others are counted now and then.
CREATE TABLE handback.kept_calls (
    counted_to BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);

INSERT INTO handback.kept_calls VALUES (0, 0);

-- The ids of calls that are no longer kept. They are not used again for a day.
CREATE TABLE handback.forgotten_call (
    request TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    since TIMESTAMPTZ NOT NULL
);

CREATE INDEX forgotten_call_since ON handback.forgotten_call (since);

-- Clients that have tools.
CREATE TABLE handback.client (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    content TEXT NOT NULL
);

CREATE TABLE handback.client_tool (
    -- The order of registration.
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    client TEXT COLLATE "C" NOT NULL REFERENCES handback.client (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (client, name)
);

-- What clients keep, and under '' what all keep. Writers only add changes, so that they do not wait for each other; the
-- changes are added up now and then.
CREATE TABLE handback.usage (
    client TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    sessions BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);

CREATE TABLE handback.usage_change (
    client TEXT COLLATE "C" NOT NULL,
    sessions BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);

CREATE INDEX usage_change_client ON handback.usage_change (client);

-- Counts a change of what a client keeps, and of what all keep.
CREATE FUNCTION handback.count_usage(owner TEXT, more_sessions BIGINT, more_bytes BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    IF more_sessions = 0 AND more_bytes = 0 THEN
        RETURN;
    END IF;
    IF owner IS NULL THEN
        INSERT INTO handback.usage_change VALUES ('', more_sessions, more_bytes);
    ELSE
        INSERT INTO handback.usage_change VALUES ('', more_sessions, more_bytes), (owner, more_sessions, more_bytes);
    END IF;
END
$$;

-- Counts a change of what a session keeps.
CREATE FUNCTION handback.grow_session(grown BIGINT, more BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    owner TEXT;
BEGIN
    IF more <> 0 THEN
        UPDATE handback.session SET bytes = bytes + more WHERE number = grown RETURNING client INTO owner;
        PERFORM handback.count_usage(owner, 0, more);
    END IF;
END
$$;

-- Saves a session, and replaces its earlier version.
CREATE FUNCTION handback.save_session(
    new_id TEXT, new_client TEXT, new_agent TEXT, new_parent TEXT, new_updated BIGINT, new_content TEXT
) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    known RECORD;
    size BIGINT := octet_length(new_content);
BEGIN
    SELECT number, client, bytes, octet_length(content) AS size INTO known FROM handback.session
    WHERE id = new_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO handback.session (id, client, agent, parent, updated, bytes, content)
        VALUES (new_id, new_client, new_agent, new_parent, new_updated, size, new_content);
        PERFORM handback.count_usage(new_client, 1, size);
        RETURN;
    END IF;
    UPDATE handback.session SET client = new_client, agent = new_agent, parent = new_parent, updated = new_updated,
        bytes = known.bytes + size - known.size, content = new_content
    WHERE number = known.number;
    IF known.client IS DISTINCT FROM new_client THEN
        PERFORM handback.count_usage(known.client, -1, -known.bytes);
        PERFORM handback.count_usage(new_client, 1, known.bytes + size - known.size);
    ELSE
        PERFORM handback.count_usage(new_client, 0, size - known.size);
    END IF;
END
$$;

-- Deletes a session with everything in it, and the finished calls of that session even if it is not known. Returns whether
-- it was known.
CREATE FUNCTION handback.delete_session(gone TEXT) RETURNS BOOLEAN
LANGUAGE plpgsql AS $$
DECLARE
    known RECORD;
    is_known BOOLEAN;
BEGIN
    DELETE FROM handback.session WHERE id = gone RETURNING client, bytes INTO known;
    is_known := FOUND;
    IF is_known THEN
        PERFORM handback.count_usage(known.client, -1, -known.bytes);
    END IF;
    WITH deleted AS (
        DELETE FROM handback.call WHERE session = gone AND ended IS NOT NULL RETURNING request, ended, size
    ), forgotten AS (
        INSERT INTO handback.forgotten_call (request, since) SELECT request, now() FROM deleted
        ON CONFLICT (request) DO UPDATE SET since = excluded.since
    )
    -- Those that are not counted yet need not be taken off.
    UPDATE handback.kept_calls SET bytes = bytes - counted.size
    FROM (
        SELECT sum(deleted.size) AS size FROM deleted, handback.kept_calls AS kept WHERE deleted.ended <= kept.counted_to
    ) AS counted
    WHERE counted.size IS NOT NULL;
    RETURN is_known;
END
$$;

-- Saves a message, if its session is known, and returns whether it is. The parts are those that may have changed; `parts` is
-- how many the message has in all. Fails if others than these are needed: then all must be sent.
CREATE FUNCTION handback.save_message(
    of_session TEXT, new_id TEXT, new_parent TEXT, new_created BIGINT, new_open BOOLEAN, new_role TEXT,
    places INTEGER[], ids TEXT[], bodies TEXT[], parts INTEGER
) RETURNS BOOLEAN
LANGUAGE plpgsql AS $$
DECLARE
    owner BIGINT;
    known RECORD;
    saved BIGINT;
    more BIGINT;
BEGIN
    SELECT number INTO owner FROM handback.session WHERE id = of_session FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    SELECT number, octet_length(role) AS size INTO known FROM handback.message
    WHERE session = owner AND id = new_id;
    IF NOT FOUND THEN
        IF cardinality(places) < parts THEN
            RAISE EXCEPTION 'the message % is not there, and only some of its parts were sent', new_id;
        END IF;
        INSERT INTO handback.message (session, id, parent, created, open, role)
        VALUES (owner, new_id, new_parent, new_created, new_open, new_role)
        RETURNING number INTO saved;
        INSERT INTO handback.part (message, place, id, body)
        SELECT saved, part.place, part.id, part.body FROM unnest(places, ids, bodies) AS part (place, id, body);
        SELECT octet_length(new_role) + coalesce(sum(octet_length(body)), 0) INTO more FROM unnest(bodies) AS body;
    ELSE
        UPDATE handback.message SET created = new_created, open = new_open, role = new_role
        WHERE number = known.number AND (created, open, role) IS DISTINCT FROM (new_created, new_open, new_role);
        more := octet_length(new_role) - known.size;
        IF cardinality(places) > 0 THEN
            more := more
                + (SELECT sum(octet_length(body)) FROM unnest(bodies) AS body)
                - (SELECT coalesce(sum(octet_length(body)), 0) FROM handback.part
                    WHERE message = known.number AND place = ANY (places));
            INSERT INTO handback.part (message, place, id, body)
            SELECT known.number, part.place, part.id, part.body
            FROM unnest(places, ids, bodies) AS part (place, id, body)
            ON CONFLICT (message, place) DO UPDATE SET id = excluded.id, body = excluded.body
            WHERE (part.id, part.body) IS DISTINCT FROM (excluded.id, excluded.body);
        END IF;
        WITH gone AS (
            DELETE FROM handback.part WHERE message = known.number AND place >= parts RETURNING octet_length(body) AS size
        )
        SELECT more - coalesce(sum(size), 0) INTO more FROM gone;
    END IF;
    PERFORM handback.grow_session(owner, more);
    RETURN TRUE;
END
$$;

-- Deletes a message and all that were first saved after it.
CREATE FUNCTION handback.delete_messages_from(of_session TEXT, first TEXT) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    owner BIGINT;
    start BIGINT;
    less BIGINT;
BEGIN
    SELECT number INTO owner FROM handback.session WHERE id = of_session FOR NO KEY UPDATE;
    SELECT number INTO start FROM handback.message WHERE session = owner AND id = first;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT coalesce(sum(octet_length(role) + (
        SELECT coalesce(sum(octet_length(body)), 0) FROM handback.part WHERE part.message = message.number
    )), 0) INTO less FROM handback.message WHERE session = owner AND number >= start;
    DELETE FROM handback.message WHERE session = owner AND number >= start;
    PERFORM handback.grow_session(owner, -less);
END
$$;

-- Saves a run, if its session is known.
CREATE FUNCTION handback.save_run(of_session TEXT, new_id TEXT, new_unfinished BOOLEAN, new_content TEXT) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    owner BIGINT;
    before BIGINT;
BEGIN
    SELECT number INTO owner FROM handback.session WHERE id = of_session FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT octet_length(content) INTO before FROM handback.run WHERE session = owner AND id = new_id;
    IF FOUND THEN
        UPDATE handback.run SET unfinished = new_unfinished, content = new_content
        WHERE session = owner AND id = new_id;
    ELSE
        INSERT INTO handback.run (session, id, unfinished, content) VALUES (owner, new_id, new_unfinished, new_content);
    END IF;
    PERFORM handback.grow_session(owner, octet_length(new_content) - coalesce(before, 0));
END
$$;

-- Appends events of a run, if it is known. Events that are stored already are left as they are. If some before the first are
-- missing, it fails with HB001, and the message is how many are stored before it.
CREATE FUNCTION handback.append_run_events(of_session TEXT, of_run TEXT, first BIGINT, events TEXT[]) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    known RECORD;
    stored BIGINT;
    more BIGINT;
BEGIN
    SELECT run.number, run.session INTO known
    FROM handback.session JOIN handback.run ON run.session = session.number
    WHERE session.id = of_session AND run.id = of_run FOR NO KEY UPDATE OF session;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT coalesce(max(number) + 1, 0) INTO stored FROM handback.run_event WHERE run = known.number;
    IF first > stored THEN
        RAISE EXCEPTION '%', stored USING ERRCODE = 'HB001';
    END IF;
    INSERT INTO handback.run_event (run, number, event)
    SELECT known.number, first + told.place - 1, told.event
    FROM unnest(events) WITH ORDINALITY AS told (event, place) WHERE first + told.place - 1 >= stored;
    SELECT coalesce(sum(octet_length(told.event)), 0) INTO more
    FROM unnest(events) WITH ORDINALITY AS told (event, place) WHERE first + told.place - 1 >= stored;
    PERFORM handback.grow_session(known.session, more);
END
$$;

-- Saves a client and changes of its tools: `gone` are removed, and the others are saved in their order. A tool that is
-- replaced keeps its place. A client without tools is removed.
CREATE FUNCTION handback.save_client(
    saved TEXT, new_content TEXT, names TEXT[], contents TEXT[], gone TEXT[]
) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO handback.client (id, content) VALUES (saved, new_content)
    ON CONFLICT (id) DO UPDATE SET content = excluded.content;
    INSERT INTO handback.client_tool (client, name, content)
    SELECT saved, tool.name, tool.content
    FROM unnest(names, contents) WITH ORDINALITY AS tool (name, content, place) ORDER BY tool.place
    ON CONFLICT (client, name) DO UPDATE SET content = excluded.content;
    DELETE FROM handback.client_tool WHERE client = saved AND name = ANY (gone);
    DELETE FROM handback.client
    WHERE id = saved AND NOT EXISTS (SELECT FROM handback.client_tool WHERE client = saved);
END
$$;

-- Adds up the changes of what clients keep, unless that is being done.
CREATE FUNCTION handback.add_up_usage() RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    -- "hndu" in ASCII.
    IF NOT pg_try_advisory_xact_lock(1752065141) THEN
        RETURN;
    END IF;
    WITH gone AS (DELETE FROM handback.usage_change RETURNING client, sessions, bytes)
    INSERT INTO handback.usage (client, sessions, bytes)
    SELECT client, sum(sessions), sum(bytes) FROM gone GROUP BY client ORDER BY client
    ON CONFLICT (client) DO UPDATE SET
        sessions = usage.sessions + excluded.sessions, bytes = usage.bytes + excluded.bytes;
    DELETE FROM handback.usage WHERE sessions = 0 AND client <> '';
END
$$;

-- Deletes the oldest finished calls while there are too many, too large together or too old, up to `most` at a time, and frees the
-- ids of calls that were deleted long ago. Returns whether there may be more to delete.
CREATE FUNCTION handback.prune_calls(most_calls BIGINT, most_bytes BIGINT, oldest INTERVAL, most INTEGER) RETURNS BOOLEAN
LANGUAGE plpgsql AS $$
DECLARE
    counted RECORD;
    last BIGINT;
    more BIGINT;
    freed INTEGER;
    deleted INTEGER;
BEGIN
    SELECT counted_to, bytes INTO counted FROM handback.kept_calls FOR UPDATE;
    SELECT coalesce(max(ended), 0) INTO last FROM handback.call WHERE ended IS NOT NULL;
    SELECT coalesce(sum(size), 0) INTO more FROM handback.call WHERE ended > counted.counted_to AND ended <= last;
    more := counted.bytes + more;
    WITH oldest_first AS (
        SELECT request, ended, ended_at, sum(size) OVER (ORDER BY ended) AS up_to
        FROM (
            SELECT request, ended, ended_at, size FROM handback.call WHERE ended IS NOT NULL ORDER BY ended LIMIT most
        ) AS first
    ), gone AS (
        DELETE FROM handback.call USING oldest_first WHERE call.request = oldest_first.request
            AND (oldest_first.ended <= last - most_calls OR more - oldest_first.up_to + call.size > most_bytes
                OR oldest_first.ended_at < now() - oldest)
        RETURNING call.request, call.size
    ), forgotten AS (
        INSERT INTO handback.forgotten_call (request, since) SELECT request, now() FROM gone
        ON CONFLICT (request) DO UPDATE SET since = excluded.since
    )
    SELECT count(*), more - coalesce(sum(size), 0) INTO deleted, more FROM gone;
    UPDATE handback.kept_calls SET counted_to = last, bytes = greatest(more, 0);
    WITH free AS (
        SELECT request FROM handback.forgotten_call WHERE since < now() - INTERVAL '1 day' ORDER BY since LIMIT most
    )
    DELETE FROM handback.forgotten_call USING free WHERE forgotten_call.request = free.request;
    GET DIAGNOSTICS freed = ROW_COUNT;
    RETURN deleted = most OR freed = most;
END
$$;
