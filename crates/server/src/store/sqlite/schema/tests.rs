use super::*;

const SCRIPTS: [&str; 3] = [
    "CREATE TABLE a (x); INSERT INTO a VALUES (1)",
    "CREATE TABLE b (x); INSERT INTO b SELECT x + 1 FROM a; DROP TABLE a",
    "INSERT INTO b VALUES (3)",
];

fn rows(connection: &Connection) -> Vec<i64> {
    let mut statement = connection.prepare("SELECT x FROM b ORDER BY x").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn each_version_becomes_the_newest() {
    for from in 0..=3 {
        let mut connection = Connection::open_in_memory().unwrap();
        assert_eq!(look(&connection, 3).unwrap(), Found::Version(0));
        migrate(&mut connection, 0, &SCRIPTS[..from]).unwrap();
        assert_eq!(look(&connection, 3).unwrap(), Found::Version(from));
        migrate(&mut connection, from, &SCRIPTS).unwrap();
        assert_eq!(look(&connection, 3).unwrap(), Found::Version(3));
        assert_eq!(rows(&connection), [2, 3]);
        assert_eq!(look(&connection, 2).unwrap(), Found::Newer(3));
    }
}

#[test]
fn a_step_that_fails_leaves_the_version_before_it() {
    let mut connection = Connection::open_in_memory().unwrap();
    let broken = [SCRIPTS[0], "CREATE TABLE b (x); DROP TABLE a; INSERT INTO missing VALUES (1)"];
    assert!(migrate(&mut connection, 0, &broken).is_err());
    assert_eq!(look(&connection, 3).unwrap(), Found::Version(1));
    migrate(&mut connection, 1, &SCRIPTS).unwrap();
    assert_eq!(rows(&connection), [2, 3]);
}

/// What version 1 kept of a session.
fn insert_session(connection: &Connection, id: &str, content: &str) {
    let values = [id, content];
    connection.execute("INSERT INTO session (id, updated, content) VALUES (?1, 1, ?2)", values).unwrap();
}

#[test]
fn version_2_knows_the_agents_of_the_sessions_that_were_there() {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, 0, &MIGRATIONS[..1]).unwrap();
    // As deep as a session's metadata may be.
    let deep = format!("{}{}", r#"{"agent":["#.repeat(64), "]}".repeat(64));
    for (id, content) in [
        ("named", r#"{"id":"named","title":"\"agent\":\"no\"","agent":"it's \"chef\" 🦀","metadata":null}"#),
        ("deep", &format!(r#"{{"agent":"chef","metadata":{deep}}}"#)),
        ("odd", r#"{"agent":"chef","metadata":{"n":[1e400,-0],"s":"\ud800","s":1}}"#),
        ("empty", r#"{"agent":""}"#),
        ("none", r#"{"agent":null,"metadata":{"agent":"no"}}"#),
        ("absent", "{}"),
        ("damaged", r#"{"agent":"chef""#),
    ] {
        insert_session(&connection, id, content);
    }
    migrate(&mut connection, 1, &MIGRATIONS[..2]).unwrap();
    let mut statement = connection.prepare("SELECT id, agent FROM session ORDER BY rowid").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let agents: Vec<(String, Option<String>)> = rows.collect::<Result<_, _>>().unwrap();
    let expected = [
        ("named", Some("it's \"chef\" 🦀")),
        ("deep", Some("chef")),
        ("odd", Some("chef")),
        ("empty", Some("")),
        ("none", Some("default")),
        ("absent", Some("default")),
        ("damaged", None),
    ];
    assert_eq!(agents, expected.map(|(id, agent)| (id.to_owned(), agent.map(str::to_owned))));
}

/// How much each client has, and '' for all: sessions and bytes.
fn usage(connection: &Connection) -> Vec<(String, i64, i64)> {
    let mut statement = connection.prepare("SELECT client, sessions, bytes FROM usage ORDER BY client").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// A file of an older version with these rows; from version 2 on its session `a` has a run of six bytes, too. Returns
/// them besides.
fn older(from: usize, rows: &str) -> (Connection, i64) {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("PRAGMA foreign_keys = ON").unwrap();
    migrate(&mut connection, 0, &MIGRATIONS[..from]).unwrap();
    connection.execute_batch(rows).unwrap();
    if from < 2 {
        return (connection, 0);
    }
    let run = "INSERT INTO run (session, id, unfinished, content) VALUES ('a', 'r', 0, '123');
        INSERT INTO run_event VALUES (1, 0, '1'), (1, 1, '12')";
    connection.execute_batch(run).unwrap();
    (connection, 3 + 3)
}

#[test]
fn version_3_has_counted_what_was_there_and_goes_on_counting() {
    for from in 1..3 {
        let rows = "INSERT INTO session (id, client, updated, content) VALUES
                ('a', 'desk', 1, 'žluť'), ('b', NULL, 1, '{}'), ('c', 'desk', 1, '{}'), ('d', 'phone', 1, '');
            INSERT INTO message (session, id, created, unanswered, role) VALUES ('a', 'm', 1, 0, 'role');
            INSERT INTO part VALUES (1, 0, 'p', '12345678'), (1, 1, 'p', '🦀')";
        let (mut connection, of_run) = older(from, rows);
        let of_a = 6 + 4 + 8 + 4 + of_run;
        migrate(&mut connection, from, &MIGRATIONS[..3]).unwrap();
        let expected = [("", 4, of_a + 4), ("desk", 2, of_a + 2), ("phone", 1, 0)];
        assert_eq!(usage(&connection), expected.map(|(client, sessions, bytes)| (client.to_owned(), sessions, bytes)));
        connection
            .execute_batch("DELETE FROM part WHERE place = 0; DELETE FROM session WHERE id IN ('b', 'd')")
            .unwrap();
        let expected = [("", 2, of_a - 8 + 2), ("desk", 2, of_a - 8 + 2)];
        assert_eq!(usage(&connection), expected.map(|(client, sessions, bytes)| (client.to_owned(), sessions, bytes)));
        connection.execute_batch("DELETE FROM session").unwrap();
        assert_eq!(usage(&connection), [(String::new(), 0, 0)]);
    }
}

#[test]
fn an_empty_file_of_an_older_version_has_counted_nothing() {
    for from in 0..3 {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, 0, &MIGRATIONS[..from]).unwrap();
        migrate(&mut connection, from, &MIGRATIONS[..3]).unwrap();
        assert_eq!(usage(&connection), [(String::new(), 0, 0)], "version {from}");
    }
}

#[test]
fn version_4_knows_what_each_session_takes_and_where_it_came_from() {
    for from in 1..4 {
        let rows = r#"INSERT INTO session (id, client, updated, content) VALUES
                ('a', 'desk', 1, '{"parent":null}'), ('b', NULL, 1, '{"parent":"a"}'), ('c', 'desk', 1, 'žluť');
            INSERT INTO message (session, id, created, unanswered, role) VALUES ('a', 'm', 1, 0, 'role');
            INSERT INTO part VALUES (1, 0, 'p', '12345678'), (1, 1, 'p', '🦀')"#;
        let (mut connection, of_run) = older(from, rows);
        let of_a = 15 + 4 + 8 + 4 + of_run;
        migrate(&mut connection, from, &MIGRATIONS[..4]).unwrap();
        let mut statement = connection.prepare("SELECT id, parent, bytes FROM session ORDER BY id").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let sessions: Vec<(String, Option<String>, i64)> = rows.collect::<Result<_, _>>().unwrap();
        let expected = [("a", None, of_a), ("b", Some("a"), 14), ("c", None, 6)];
        assert_eq!(sessions, expected.map(|(id, parent, bytes)| (id.to_owned(), parent.map(str::to_owned), bytes)));
        drop(statement);
        let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' OR name IN ('kept', 'usage')"), 0);
    }
}

#[test]
fn version_5_names_sessions_by_numbers_and_loses_nothing() {
    for from in 2..5 {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        migrate(&mut connection, 0, &MIGRATIONS[..from]).unwrap();
        connection
            .execute_batch(
                "INSERT INTO session (id, client, agent, updated, content) VALUES
                    ('b', 'desk', 'chef', 7, '{}'), ('a', NULL, 'default', 8, '{}');
                INSERT INTO message (number, session, id, parent, created, unanswered, role) VALUES
                    (3, 'a', 'm', NULL, 1, 0, 'user'), (5, 'b', 'm', NULL, 2, 1, 'user'), (9, 'a', 'n', 'm', 3, 1, 'says');
                INSERT INTO part VALUES (9, 1, 'q', 'second'), (9, 0, 'p', 'first'), (5, 0, 'p', 'other');
                INSERT INTO run (session, id, unfinished, content) VALUES ('a', 'r', 1, 'run');
                INSERT INTO run_event VALUES (1, 0, 'one'), (1, 1, 'two')",
            )
            .unwrap();
        migrate(&mut connection, from, &MIGRATIONS[..5]).unwrap();
        let texts = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        let sessions = "SELECT id || coalesce(client, '-') || agent || updated || content FROM session ORDER BY number";
        assert_eq!(texts(sessions), ["bdeskchef7{}", "a-default8{}"]);
        let messages = "SELECT message.number || session.id || message.id || coalesce(message.parent, '-') || created
                || unanswered || role
            FROM message JOIN session ON session.number = message.session ORDER BY message.number";
        assert_eq!(texts(messages), ["3am-10user", "5bm-21user", "9anm31says"]);
        let parts = "SELECT (number >> 24) || '.' || (number & 0xffffff) || id || body FROM part ORDER BY number";
        assert_eq!(texts(parts), ["5.0pother", "9.0pfirst", "9.1qsecond"]);
        let runs = "SELECT session.id || run.id || unfinished || run.content
            FROM run JOIN session ON session.number = run.session";
        assert_eq!(texts(runs), ["ar1run"]);
        assert_eq!(texts("SELECT run || '.' || number || event FROM run_event ORDER BY number"), ["1.0one", "1.1two"]);
        connection.execute_batch("DELETE FROM session WHERE id = 'a'").unwrap();
        assert_eq!(texts(parts), ["5.0pother"]);
        assert_eq!(texts("SELECT id FROM run UNION ALL SELECT event FROM run_event"), [""; 0]);
        assert_eq!(texts("SELECT name FROM sqlite_schema WHERE name LIKE 'old%'"), [""; 0]);
        assert_eq!(texts("PRAGMA integrity_check"), ["ok"]);
    }
}

/// What earlier versions left open cannot go on, but nothing of it is lost.
#[test]
fn version_6_ends_the_calls_that_were_open_and_counts_those_that_had_ended() {
    for from in 2..6 {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        migrate(&mut connection, 0, &MIGRATIONS[..from]).unwrap();
        let session = if from < 5 { "'a'" } else { "1" };
        let bytes = if from < 5 { "" } else { ", bytes" };
        let zero = if from < 5 { "" } else { ", 0" };
        connection
            .execute_batch(&format!(
                "INSERT INTO session (id, updated, content{bytes}) VALUES ('a', 7, '{{}}'{zero});
                INSERT INTO message (session, id, parent, created, unanswered, role) VALUES
                    ({session}, 'asked', NULL, 1, 1, 'user'), ({session}, 'half said', 'other', 2, 1, 'says'),
                    ({session}, 'late', NULL, 3, 1, 'user'), ({session}, 'answer', 'late', 4, 0, 'says');
                INSERT INTO call (request, ended, size, session, client, head, input, ending) VALUES
                    ('first', 3, 10, 's', 'c', '{{}}', '{{}}', 'how'), ('open', NULL, 7, 's', 'c', '{{}}', '{{}}', NULL),
                    ('second', 8, 20, 's', 'c', '{{}}', '{{}}', 'how'), ('other', NULL, 5, 's', 'c', '{{}}', '{{}}', NULL)"
            ))
            .unwrap();
        migrate(&mut connection, from, MIGRATIONS).unwrap();
        let texts = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        assert_eq!(texts("SELECT id FROM message WHERE open ORDER BY number"), ["asked", "half said"], "from {from}");
        let calls = "SELECT request || ' ' || ended || ' ' || bytes_before || ' ' || offered FROM call ORDER BY ended";
        assert_eq!(texts(calls), ["first 3 0 0", "second 8 10 0", "open 9 30 0", "other 10 37 0"], "from {from}");
        let endings = "SELECT ending -> '$.outcome.Cancelled' FROM call WHERE request IN ('open', 'other')";
        assert_eq!(texts(endings), [r#"{"Requested":"The server was restarted"}"#; 2]);
        assert_eq!(texts("SELECT request FROM call WHERE ended_at < (unixepoch() - 60) * 1000"), [""; 0]);
        assert_eq!(texts("PRAGMA integrity_check"), ["ok"]);
    }
}
