-- Sessions are looked for by the agent that answers in them as well. A row that cannot be read is left for whoever reads
-- it.
ALTER TABLE session ADD COLUMN agent TEXT;

UPDATE session SET agent = coalesce(json_extract(content, '$.agent'), 'default') WHERE json_valid(content);

CREATE INDEX session_agent ON session (agent, updated, id) WHERE agent IS NOT NULL;

CREATE TABLE run (
    -- The order in which runs were first saved.
    number INTEGER PRIMARY KEY,
    session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    -- 1 from when a run is started until it is over.
    unfinished INTEGER NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (session, id)
) STRICT;

CREATE INDEX run_order ON run (session);
CREATE INDEX run_unfinished ON run (unfinished) WHERE unfinished;

CREATE TABLE run_event (
    run INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE,
    -- Counted from 0, without gaps.
    number INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
