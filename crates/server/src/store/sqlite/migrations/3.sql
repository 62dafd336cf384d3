-- How much is kept, counted by whatever writes, so that nobody has to look for it. Bytes are those of the texts.

CREATE TABLE kept (
    session TEXT NOT NULL PRIMARY KEY,
    client TEXT,
    -- Of the session, its messages and parts, its runs and events.
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
    -- A client, or '' for all that is kept.
    client TEXT NOT NULL PRIMARY KEY,
    sessions INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO kept (session, client, bytes)
SELECT session.id, session.client, octet_length(session.content)
    + (SELECT coalesce(sum(octet_length(role)), 0) FROM message WHERE session = session.id)
    + (SELECT coalesce(sum(octet_length(body)), 0) FROM message JOIN part ON part.message = message.number
        WHERE session = session.id)
    + (SELECT coalesce(sum(octet_length(content)), 0) FROM run WHERE session = session.id)
    + (SELECT coalesce(sum(octet_length(event)), 0) FROM run JOIN run_event ON run_event.run = run.number
        WHERE session = session.id)
FROM session;

INSERT INTO usage (client, sessions, bytes) SELECT '', count(*), coalesce(sum(bytes), 0) FROM kept;
INSERT INTO usage (client, sessions, bytes)
SELECT client, count(*), sum(bytes) FROM kept WHERE client IS NOT NULL GROUP BY client;

CREATE TRIGGER kept_more AFTER INSERT ON kept BEGIN
    UPDATE usage SET sessions = sessions + 1, bytes = bytes + new.bytes WHERE client = '';
    INSERT INTO usage (client, sessions, bytes) SELECT new.client, 1, new.bytes WHERE new.client IS NOT NULL
    ON CONFLICT (client) DO UPDATE SET sessions = sessions + 1, bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER kept_less AFTER DELETE ON kept BEGIN
    UPDATE usage SET sessions = sessions - 1, bytes = bytes - old.bytes WHERE client IN ('', old.client);
    DELETE FROM usage WHERE client = old.client AND sessions = 0;
END;

CREATE TRIGGER kept_bytes AFTER UPDATE OF bytes ON kept BEGIN
    UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE client IN ('', new.client);
END;

CREATE TRIGGER session_kept AFTER INSERT ON session BEGIN
    INSERT INTO kept (session, client, bytes) VALUES (new.id, new.client, octet_length(new.content));
END;

CREATE TRIGGER session_content AFTER UPDATE OF content ON session
WHEN octet_length(new.content) <> octet_length(old.content) BEGIN
    UPDATE kept SET bytes = bytes + octet_length(new.content) - octet_length(old.content) WHERE session = new.id;
END;

-- A session that changes hands is taken from the one and given to the other.
CREATE TRIGGER session_client AFTER UPDATE OF client ON session WHEN new.client IS NOT old.client BEGIN
    UPDATE usage SET sessions = sessions - 1, bytes = bytes - (SELECT bytes FROM kept WHERE session = new.id)
    WHERE client = old.client;
    DELETE FROM usage WHERE client = old.client AND sessions = 0;
    INSERT INTO usage (client, sessions, bytes)
    SELECT new.client, 1, bytes FROM kept WHERE session = new.id AND new.client IS NOT NULL
    ON CONFLICT (client) DO UPDATE SET sessions = sessions + 1, bytes = bytes + excluded.bytes;
    UPDATE kept SET client = new.client WHERE session = new.id;
END;

CREATE TRIGGER session_gone AFTER DELETE ON session BEGIN
    DELETE FROM kept WHERE session = old.id;
END;

CREATE TRIGGER message_kept AFTER INSERT ON message BEGIN
    UPDATE kept SET bytes = bytes + octet_length(new.role) WHERE session = new.session;
END;

CREATE TRIGGER message_role AFTER UPDATE OF role ON message
WHEN octet_length(new.role) <> octet_length(old.role) BEGIN
    UPDATE kept SET bytes = bytes + octet_length(new.role) - octet_length(old.role) WHERE session = new.session;
END;

-- Before the parts go with it. When its session goes, all that is counted there goes at once.
CREATE TRIGGER message_gone BEFORE DELETE ON message
WHEN EXISTS (SELECT 1 FROM session WHERE id = old.session) BEGIN
    UPDATE kept SET bytes = bytes - octet_length(old.role)
        - (SELECT coalesce(sum(octet_length(body)), 0) FROM part WHERE message = old.number)
    WHERE session = old.session;
END;

CREATE TRIGGER part_kept AFTER INSERT ON part BEGIN
    UPDATE kept SET bytes = bytes + octet_length(new.body)
    WHERE session = (SELECT session FROM message WHERE number = new.message);
END;

CREATE TRIGGER part_body AFTER UPDATE OF body ON part WHEN octet_length(new.body) <> octet_length(old.body) BEGIN
    UPDATE kept SET bytes = bytes + octet_length(new.body) - octet_length(old.body)
    WHERE session = (SELECT session FROM message WHERE number = new.message);
END;

-- Not when its message goes, which is gone by then and has taken this along.
CREATE TRIGGER part_gone AFTER DELETE ON part BEGIN
    UPDATE kept SET bytes = bytes - octet_length(old.body)
    WHERE session = (SELECT session FROM message WHERE number = old.message);
END;

-- Runs and events go with their session only.
CREATE TRIGGER run_kept AFTER INSERT ON run BEGIN
    UPDATE kept SET bytes = bytes + octet_length(new.content) WHERE session = new.session;
END;

CREATE TRIGGER run_content AFTER UPDATE OF content ON run
WHEN octet_length(new.content) <> octet_length(old.content) BEGIN
    UPDATE kept SET bytes = bytes + octet_length(new.content) - octet_length(old.content) WHERE session = new.session;
END;

CREATE TRIGGER run_event_kept AFTER INSERT ON run_event BEGIN
    UPDATE kept SET bytes = bytes + octet_length(new.event)
    WHERE session = (SELECT session FROM run WHERE number = new.run);
END;
