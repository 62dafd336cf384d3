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
