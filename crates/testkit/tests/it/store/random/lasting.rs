//! The stores that last, and what was counted in them, counted again.

use handback_core::store::Store;
use handback_server::store::postgres::Bounds;
use handback_server::store::{Postgres, Sqlite};
use handback_testkit::postgres::query;
use handback_testkit::{Scratch, TestDatabase};
use rusqlite::Connection;

use super::super::sqlite;

/// Clients, their sessions and bytes; '' for all.
const COUNT_AGAIN: &str = "
    WITH text (session, bytes) AS (
        SELECT number, octet_length(content) FROM session
        UNION ALL SELECT session, octet_length(role) FROM message
        UNION ALL SELECT session, octet_length(body) FROM message JOIN part ON part.number >> 24 = message.number
        UNION ALL SELECT session, octet_length(content) FROM run
        UNION ALL SELECT session, octet_length(event) FROM run JOIN run_event ON run_event.run = run.number)
    SELECT '', (SELECT count(*) FROM session), (SELECT coalesce(sum(text.bytes), 0) FROM text)
    UNION ALL
    SELECT client, count(DISTINCT id), sum(text.bytes) FROM session JOIN text ON text.session = session.number
    WHERE client IS NOT NULL GROUP BY client
    ORDER BY 1";

/// What is counted.
const KEPT: &str = "
    SELECT '', count(*), coalesce(sum(bytes), 0) FROM session
    UNION ALL SELECT client, count(*), sum(bytes) FROM session WHERE client IS NOT NULL GROUP BY client ORDER BY 1";

/// A store that lasts, and where it keeps what it has.
pub(super) enum Lasting {
    File(Scratch, Sqlite),
    Database(TestDatabase, Postgres),
}

impl Lasting {
    pub(super) fn in_file() -> Self {
        let scratch = Scratch::new();
        let store = sqlite(&scratch);
        Self::File(scratch, store)
    }

    pub(super) async fn in_postgres() -> Self {
        let database = TestDatabase::create();
        let store = Postgres::open(&database.url(), Bounds::default()).await.unwrap();
        Self::Database(database, store)
    }

    pub(super) fn store(&self) -> &dyn Store {
        match self {
            Self::File(_, store) => store,
            Self::Database(_, store) => store,
        }
    }

    /// Closes it, and opens it again.
    pub(super) async fn restart(&mut self) {
        match self {
            Self::File(scratch, store) => {
                store.close().await.unwrap();
                *store = sqlite(scratch);
            }
            Self::Database(database, store) => {
                store.close().await.unwrap();
                *store = Postgres::open(&database.url(), Bounds::default()).await.unwrap();
            }
        }
    }

    /// The clients, their sessions and bytes as they are in the tables; '' for all.
    pub(super) fn counted_again(&self) -> Vec<(String, i64, i64)> {
        self.rows(COUNT_AGAIN)
    }

    /// The same as it was counted all along.
    pub(super) fn counted(&self) -> Vec<(String, i64, i64)> {
        self.rows(KEPT)
    }

    fn rows(&self, sql: &str) -> Vec<(String, i64, i64)> {
        match self {
            Self::File(scratch, _) => {
                let file = Connection::open(scratch.join("handback.db")).unwrap();
                let mut statement = file.prepare(sql).unwrap();
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
            Self::Database(database, _) => {
                // A part has its message's number there, and not one made of it.
                let sql = sql.replace("part.number >> 24", "part.message");
                let rows = format!(
                    "SET search_path = handback; SELECT concat_ws(' ', client, a, b) FROM ({sql}) AS t (client, a, b)"
                );
                let read = |row: String| {
                    let mut columns = row.split(' ');
                    let client = columns.next().unwrap().to_owned();
                    let mut number = || columns.next().unwrap().parse().unwrap();
                    (client, number(), number())
                };
                query(&database.url(), &rows).unwrap().into_iter().map(read).collect()
            }
        }
    }
}
