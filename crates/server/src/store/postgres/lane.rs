//! A connection with its prepared statements. Several may use it at the same time: what they send is sent at once, in their
//! order, and nobody waits for the answers of others.

use std::time::Duration;

use ahash::HashMap;
use futures_util::future::try_join_all;
use tokio::runtime::Handle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::task::AbortOnDropHandle;

use super::fault::Fault;
use super::{calls, clients, messages, nodes, runs, sessions, usage};

/// How long it may take to connect, and to prepare the statements.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// Values of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How a database is reached.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
}

/// A connection with its prepared statements.
pub(super) struct Lane {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    /// Speaks with the database for as long as this is there. What is under way then is not waited for.
    _connection: AbortOnDropHandle<()>,
}

impl Lane {
    /// Connects, and prepares all statements.
    pub(super) async fn open(address: &Address) -> Result<Self, Fault> {
        let mut lane = Self::connect(address).await?;
        let all = all();
        let prepared = reached(try_join_all(all.iter().map(|sql| lane.client.prepare(sql)))).await?;
        lane.statements = all.into_iter().zip(prepared).collect();
        Ok(lane)
    }

    /// Connects.
    pub(super) async fn connect(address: &Address) -> Result<Self, Fault> {
        let (client, connection) = reached(address.config.connect(address.tls.clone())).await?;
        // Its errors are those of the statements under way.
        let speaking = async { _ = connection.await };
        let _connection = AbortOnDropHandle::new(Handle::current().spawn(speaking));
        Ok(Self { client, statements: HashMap::default(), _connection })
    }

    /// Whether the connection is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs a prepared statement. It is sent when the future is first polled.
    pub(super) async fn query(&self, sql: &'static str, values: Values<'_>) -> Result<Vec<Row>, Fault> {
        let statement = self.statements.get(sql).ok_or(Fault::Unprepared)?;
        Ok(self.client.query(statement, values).await?)
    }

    /// Runs a prepared statement that gives one row.
    pub(super) async fn row(&self, sql: &'static str, values: Values<'_>) -> Result<Row, Fault> {
        let statement = self.statements.get(sql).ok_or(Fault::Unprepared)?;
        Ok(self.client.query_one(statement, values).await?)
    }

    /// Runs statements that are not prepared. They are sent when the future is first polled.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Fault> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// The client, for what is done once.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

/// All statements.
pub(super) fn all() -> Vec<&'static str> {
    [calls::ALL, clients::ALL, messages::ALL, runs::ALL, sessions::ALL, usage::ALL, nodes::ALL].concat()
}

/// Waits for something that is done to connect. Whatever the database says against it may pass: it is started or restored, or
/// its settings are changed.
async fn reached<T>(connecting: impl Future<Output = Result<T, Error>>) -> Result<T, Fault> {
    let fault = match tokio::time::timeout(CONNECTED_WITHIN, connecting).await {
        Ok(Ok(reached)) => return Ok(reached),
        Ok(Err(error)) => Fault::from(error),
        Err(_) => Fault::Silent(CONNECTED_WITHIN.as_secs()),
    };
    Err(Fault::Unreachable(fault.to_string()))
}
