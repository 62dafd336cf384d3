//! The store in a PostgreSQL database.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `address` | where the database is, and how its certificate is checked |
//! | `schema` | the versions of the tables and the migrations between them |
//! | `lane` | a connection with its prepared statements |
//! | `operation` | one read or write, and where its reply goes |
//! | `stores` | the traits of stores, in terms of operations |
//! | `queue` | the operations that wait, bounded |
//! | `writer` | the task that writes: one transaction for all that wait |
//! | `readers` | the connections for reads |
//! | `upkeep`, `usage` | the oldest calls are deleted; how many bytes sessions and clients take |
//! | `sessions`, `messages`, `runs`, `calls`, `clients` | the rows |
//! | `nodes` | the processes that share the database, and their leases |
//! | `rows`, `fault` | reading columns; why an operation failed |

mod address;
mod calls;
mod clients;
mod fault;
mod lane;
mod messages;
mod nodes;
mod operation;
mod queue;
mod readers;
mod rows;
mod runs;
mod schema;
mod sessions;
mod stores;
mod upkeep;
mod usage;
mod writer;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handback_core::id::{RequestId, SessionId};
use handback_core::store::{FinishedCall, StoreError, StoreFuture};
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::fault::Fault;
use self::lane::Lane;
use self::messages::SavedMessages;
use self::operation::{Kind, Operation, Reply, Sent, Work, work};
use self::queue::{Queue, Refused};
use self::readers::Readers;
use self::schema::{Found, MIGRATIONS};
use self::upkeep::Upkeep;
use self::writer::Writer;
use crate::store::probe::Probe;
use crate::store::rank::Rank;

pub(crate) use self::address::read as read_address;
pub use self::address::{BadAddress, name_of};
pub(crate) use self::lane::Address;

/// About how many bytes a small operation takes in the queue.
const SMALL: usize = 512;
/// How many connections read.
const READERS: usize = 4;
/// How long a read may take. Then its connection is given up.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to renew a lease.
const RENEWED_WITHIN: Duration = Duration::from_secs(3);
/// Writes a value that is there already.
const PROBE: &str = "UPDATE handback.version SET version = version";

/// How much a [`Postgres`] takes and keeps. Sessions are kept until they are deleted.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// How many finished calls are kept. Beyond it the oldest are deleted, some at a time.
    pub calls: usize,
    /// About how many bytes of finished calls are kept. Beyond it the oldest are deleted, some at a time.
    pub call_bytes: u64,
    /// How long finished calls are kept.
    pub call_age: Duration,
    /// How many operations wait. Beyond it they fail at once.
    pub queued: usize,
    /// About how many bytes wait to be written. Beyond it writes fail at once.
    pub queued_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            calls: 1_000_000,
            call_bytes: 4 << 30,
            call_age: Duration::from_hours(7 * 24),
            queued: 65_536,
            queued_bytes: 256 << 20,
        }
    }
}

/// Why a database cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its URL cannot be used.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// It cannot be reached, or refuses the connection.
    #[error("{database} cannot be opened: {cause}")]
    Unreachable {
        /// The database.
        database: String,
        /// Why.
        cause: String,
    },
    /// Another server uses it.
    #[error("{database} is in use by another server; each needs a database of its own")]
    InUse {
        /// The database.
        database: String,
    },
    /// It has a schema `handback` of another program.
    #[error("{database} has a schema \"handback\" of another program; use another database")]
    Foreign {
        /// The database.
        database: String,
    },
    /// A newer version of the server wrote it.
    #[error("{database} has version {found}, which is newer than version {known} that this server knows")]
    Newer {
        /// The database.
        database: String,
        /// Its version.
        found: i32,
        /// The newest version that is known here.
        known: usize,
    },
    /// PostgreSQL is too old, or set up in a way that does not work.
    #[error("{database} cannot be used: {cause}")]
    Unusable {
        /// The database.
        database: String,
        /// Why.
        cause: String,
    },
}

/// What [`Postgres::glance`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Glance {
    /// The database's name, without the user and the password.
    pub database: String,
    /// The version of PostgreSQL.
    pub server: String,
    /// Whether a server has made its tables there.
    pub is_prepared: bool,
}

/// A store in a PostgreSQL database.
///
/// One task writes, over a connection of its own. It takes the operations that wait, sends them in one transaction, and
/// completes their futures when the commit is acknowledged. Reads go over other connections, and wait for nobody. Only a
/// read that must see writes that are not committed yet goes through the writer's queue, behind them.
///
/// What is acknowledged is committed, and as durable as the database's `synchronous_commit` makes it. If the connection breaks
/// while something is being written, it is written again over a new one: each write gives the same result when it runs twice.
pub struct Postgres {
    queue: Arc<Queue>,
    readers: Arc<Readers>,
    /// The connection for leases, which wait for nothing else.
    leases: Arc<Readers>,
    /// The database's name, for errors.
    database: Arc<str>,
    commits: Arc<AtomicU64>,
    /// Whether the writer has ended.
    closed: watch::Receiver<bool>,
    runtime: Handle,
    probe: Probe,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Postgres").field("database", &self.database).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Opens a database by its URL, and brings its tables to this version.
    pub async fn open(url: &str, bounds: Bounds) -> Result<Self, OpenError> {
        let address = address::read(url)?;
        let database: Arc<str> = address::name(&address.config).into();
        if address::is_in_the_open(&address.config) {
            tracing::warn!(%database, "the database is reached without TLS; anybody on the way can read along");
        }
        let refused = |fault: Fault| match fault {
            Fault::InUse => OpenError::InUse { database: database.to_string() },
            fault => OpenError::Unreachable { database: database.to_string(), cause: fault.to_string() },
        };
        let first = Lane::connect(&address).await.map_err(refused)?;
        let found = schema::prepare(first.client(), MIGRATIONS).await.map_err(refused)?;
        drop(first);
        must_be_usable(&database, found)?;
        let (lane, backend) = Writer::connect(&address).await.map_err(refused)?;
        let (queue, commits) = (Arc::new(Queue::new(bounds.queued, bounds.queued_bytes)), Arc::default());
        let writer = Writer {
            address: address.clone(),
            lane: Some(lane),
            backend,
            queue: queue.clone(),
            bounds,
            database: database.clone(),
            commits: Arc::clone(&commits),
            saved: SavedMessages::default(),
            upkeep: Upkeep::new(),
            is_stuck: false,
        };
        let (done, closed) = watch::channel(false);
        let runtime = Handle::current();
        runtime.spawn(async move {
            writer.run().await;
            // The store may be dropped, and nobody waits for it.
            _ = done.send(true);
        });
        let readers = Arc::new(Readers::new(address.clone(), READERS, READ_WITHIN));
        let leases = Arc::new(Readers::new(address, 1, RENEWED_WITHIN));
        Ok(Self { queue, readers, leases, database, commits, closed, runtime, probe: Probe::default() })
    }

    /// Looks at a database without changing it: whether it can be reached and used by this version.
    pub async fn glance(url: &str) -> Result<Glance, OpenError> {
        let address = address::read(url)?;
        let database = address::name(&address.config);
        let unreachable =
            |fault: Fault| OpenError::Unreachable { database: database.clone(), cause: fault.to_string() };
        let lane = Lane::connect(&address).await.map_err(unreachable)?;
        let (found, server) = schema::look(lane.client(), MIGRATIONS.len()).await.map_err(unreachable)?;
        let is_prepared = found.is_some();
        found.map_or(Ok(()), |found| must_be_usable(&database, found))?;
        Ok(Glance { database, server, is_prepared })
    }

    /// Runs what waits, refuses anything new, and disconnects. When this ends, everything that was accepted is committed, or
    /// was reported as failed.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        let closed = self.closed.clone().wait_for(|is_closed| *is_closed).await.is_ok();
        if closed { Ok(()) } else { Err(StoreError::Failed(format!("{}: the writer broke off", self.database))) }
    }

    /// Tries whether something can be written. Those who ask at about the same time share one try.
    pub async fn is_writable(&self) -> bool {
        if self.queue.has_postponed() {
            return false;
        }
        self.probe.is_writable(|| self.write(None, SMALL, Rank::Fails, None, |lane, _| Box::pin(lane.run(PROBE)))).await
    }

    /// Operations that wait for the writer.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Transactions that were committed.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Reads one session, or several. The read is queued or sent now, as writes are, and not when the future is polled: that
    /// gives the order.
    fn read<T, F>(&self, session: Option<&SessionId>, read: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a Lane, &mut SavedMessages) -> Sent<'a, T> + Send + 'static,
    {
        let (work, reply) = work(&self.database, read);
        let queued = self.queue.read(session, work).map(|given_back| {
            if let Some(work) = given_back {
                let (readers, database) = (self.readers.clone(), self.database.clone());
                self.runtime.spawn(async move { readers.read(work, &database).await });
            }
        });
        self.wait(queued, reply)
    }

    /// Finds a finished call when it is polled, whatever waits to be written.
    fn finder(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        let request = request.clone();
        let (find, found) = work(&self.database, move |lane, _| Box::pin(calls::finished(lane, request.clone())));
        let (readers, database) = (self.readers.clone(), self.database.clone());
        Box::pin(async move {
            readers.read(find, &database).await;
            found.await.unwrap_or_else(|_| Err(closed(&database)))
        })
    }

    /// Runs what has to do with leases, whatever waits to be written.
    fn lease<T, F>(&self, run: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a Lane, &mut SavedMessages) -> Sent<'a, T> + Send + 'static,
    {
        let (work, reply) = work(&self.database, run);
        let (leases, database) = (self.leases.clone(), self.database.clone());
        Box::pin(async move {
            leases.read(work, &database).await;
            reply.await.unwrap_or_else(|_| Err(closed(&database)))
        })
    }

    /// Writes about so many bytes, to a session if one is named.
    fn write<T, F>(
        &self,
        session: Option<&SessionId>,
        bytes: usize,
        rank: Rank,
        undo: Option<Box<dyn Work>>,
        write: F,
    ) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a Lane, &mut SavedMessages) -> Sent<'a, T> + Send + 'static,
    {
        let (work, reply) = work(&self.database, write);
        let kind = Kind::Write { session: session.cloned(), bytes, rank, undo };
        self.wait(self.queue.write(Operation { work, kind, is_uncertain: false }), reply)
    }

    fn wait<T: Send + 'static>(&self, queued: Result<(), Refused>, reply: Reply<T>) -> StoreFuture<T> {
        let database = self.database.clone();
        Box::pin(async move {
            match queued {
                Ok(()) => reply.await.unwrap_or_else(|_| Err(closed(&database))),
                Err(Refused::Closed) => Err(closed(&database)),
                Err(Refused::Full) => {
                    Err(StoreError::Unavailable(format!("{database}: too many operations wait to be written")))
                }
            }
        })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn closed(database: &str) -> StoreError {
    StoreError::Unavailable(format!("{database}: the store is closed"))
}

fn must_be_usable(database: &str, found: Found) -> Result<(), OpenError> {
    let database = database.to_owned();
    match found {
        Found::Version(_) => Ok(()),
        Found::Foreign => Err(OpenError::Foreign { database }),
        Found::Newer(found) => Err(OpenError::Newer { database, found, known: MIGRATIONS.len() }),
        Found::OldServer(version) => {
            let cause = format!("PostgreSQL {version} is too old; 15 or newer is needed");
            Err(OpenError::Unusable { database, cause })
        }
        Found::Encoding(encoding) => {
            let cause = format!("its encoding is {encoding}; UTF8 is needed");
            Err(OpenError::Unusable { database, cause })
        }
    }
}

#[cfg(test)]
mod tests;
