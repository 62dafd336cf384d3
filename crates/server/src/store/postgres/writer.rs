//! The task that writes: it takes the operations that wait, sends them over one connection in one transaction, and replies
//! when the answer to the commit is there. Everything is sent at once, so a transaction takes one round trip.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{MaybeDone, maybe_done};
use futures_util::poll;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use super::Bounds;
use super::fault::Fault;
use super::lane::{Address, Lane};
use super::messages::SavedMessages;
use super::operation::{Operation, Sent};
use super::queue::{AbandonOnDrop, Queue};
use super::upkeep::Upkeep;
use crate::store::rank::Rank;

/// How long a transaction may take. Then the connection is given up.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// How long it may take to delete the oldest calls and to add up usage. Then the connection is given up.
const TIDIED_WITHIN: Duration = Duration::from_secs(10);
/// For how long operations are tried again whose connection broke. Then their callers are told that they failed.
const TRIED_FOR: Duration = Duration::from_secs(2);
/// How often it is tried to connect again, and to write what waits.
const TRIED_AGAIN: Duration = Duration::from_millis(250);

/// How long a connection waits for the lock. A server that was killed has lost it once PostgreSQL sees that its connection is
/// closed.
const WAITS_FOR_LOCK: &str = "SET lock_timeout = '1s'";
/// Only one server writes at a time: the holder of this lock. "handback" in ASCII.
const ONE_SERVER: &str = "SELECT pg_advisory_lock(7521692543098643307)";
/// Beyond it nothing waits. PostgreSQL asks whether this machine is still there, and soon lets another one have the lock if not.
const HOLDS_LOCK: &str = "
    RESET lock_timeout; SET tcp_keepalives_idle = 6; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3";

/// The process of PostgreSQL that serves this connection. The number alone may be used again.
const BACKEND: &str = "
    SELECT pid, extract(epoch FROM backend_start)::TEXT FROM pg_stat_activity WHERE pid = pg_backend_pid()";
/// Ends the process of an earlier connection, if it is still there.
const END_BACKEND: &str = "
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = $1 AND extract(epoch FROM backend_start)::TEXT = $2";

/// The process of PostgreSQL that serves a connection.
pub(super) struct Backend {
    number: i32,
    started: String,
}

/// What the task owns.
pub(super) struct Writer {
    pub(super) address: Address,
    /// The connection, while there is one.
    pub(super) lane: Option<Lane>,
    /// What served the last connection, and may still have the lock.
    pub(super) backend: Backend,
    pub(super) queue: Arc<Queue>,
    pub(super) bounds: Bounds,
    /// The database's name, for errors.
    pub(super) database: Arc<str>,
    /// How many transactions were committed.
    pub(super) commits: Arc<AtomicU64>,
    pub(super) saved: SavedMessages,
    pub(super) upkeep: Upkeep,
    /// Whether something could not be written, and waits or was refused.
    pub(super) is_stuck: bool,
}

impl Writer {
    /// Connects as the only server that writes.
    pub(super) async fn connect(address: &Address) -> Result<(Lane, Backend), Fault> {
        let lane = Lane::open(address).await?;
        let backend = lock(&lane, None).await?;
        Ok((lane, backend))
    }

    /// Connects again. PostgreSQL may not have noticed that the earlier connection is broken.
    async fn connect_again(&mut self) -> Result<(), Fault> {
        self.lane = None;
        // Others may have written meanwhile.
        self.saved.forget();
        let lane = Lane::open(&self.address).await?;
        self.backend = lock(&lane, Some(&self.backend)).await?;
        self.lane = Some(lane);
        Ok(())
    }

    /// Runs operations until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        let queue = self.queue.clone();
        let _abandon = AbandonOnDrop(&queue);
        loop {
            // A timeout is no error: what waits is tried again then, and there is time for upkeep.
            let is_quiet = tokio::time::timeout(self.patience(), queue.more()).await.is_err();
            let Some(operations) = queue.take() else { break };
            let writes = operations.iter().filter(|operation| operation.changes().is_some()).count();
            if !operations.is_empty() {
                self.run_batch(operations).await;
            }
            if self.upkeep.wrote(writes) || is_quiet {
                self.look_after(is_quiet).await;
            }
        }
        self.look_after(true).await;
    }

    fn patience(&self) -> Duration {
        if self.queue.has_postponed() { TRIED_AGAIN } else { self.upkeep.patience() }
    }

    /// Does what is due and nobody waits for.
    async fn look_after(&mut self, is_quiet: bool) {
        let Some(lane) = self.lane.take_if(|lane| !lane.is_closed()) else { return };
        let done = tokio::time::timeout(TIDIED_WITHIN, self.upkeep.run(&lane, &self.bounds, is_quiet)).await;
        let done = done.unwrap_or(Err(Fault::Silent(TIDIED_WITHIN.as_secs())));
        // A connection that says nothing is given up.
        if !matches!(done, Err(Fault::Silent(_))) {
            self.lane = Some(lane);
        }
        if let Err(fault) = done {
            tracing::warn!(database = %self.database, %fault, "the database could not be tidied up");
        }
    }

    /// Runs all operations in one transaction. If a write fails, that must not fail the others: then each runs alone.
    async fn run_batch(&mut self, mut operations: Vec<Operation>) {
        let mut postponed = Vec::new();
        match self.run_together_again(&mut operations).await {
            Ok(()) => {}
            Err(fault) if fault.is_lost_connection() => {
                let mut ended = Vec::with_capacity(operations.len());
                operations.into_iter().for_each(|it| self.fail_or_postpone(it, &fault, &mut ended, &mut postponed));
                operations = ended;
            }
            Err(_) => operations = self.run_each(operations, &mut postponed).await,
        }
        // This comes first, because whoever has a reply may read at once.
        self.queue.settle(&operations);
        self.queue.postpone(postponed);
        operations.into_iter().for_each(|operation| operation.work.reply());
    }

    /// Runs each operation in a transaction of its own. Returns those that have ended.
    async fn run_each(&mut self, operations: Vec<Operation>, postponed: &mut Vec<Operation>) -> Vec<Operation> {
        let mut ended = Vec::with_capacity(operations.len());
        for mut operation in operations {
            let alone = slice::from_mut(&mut operation);
            let run = match hold_up(postponed, &alone[0]) {
                true => Err(Fault::Behind),
                false => self.run_together_again(alone).await,
            };
            match run {
                Ok(()) => ended.push(operation),
                Err(fault) => self.fail_or_postpone(operation, &fault, &mut ended, postponed),
            }
        }
        ended
    }

    /// Fails an operation, or lets it wait if it is a write. If it may have been written all the same, it is undone.
    fn fail_or_postpone(
        &mut self,
        mut operation: Operation,
        fault: &Fault,
        ended: &mut Vec<Operation>,
        postponed: &mut Vec<Operation>,
    ) {
        let error = fault.store_error(&self.database);
        let may_pass = error.is_passing() && !self.queue.is_closed();
        if may_pass && !std::mem::replace(&mut self.is_stuck, true) {
            tracing::error!(%error, "nothing can be written at the moment");
        }
        if may_pass && operation.has_rank(Rank::Waits) {
            return postponed.push(operation);
        }
        operation.work.fail(error);
        if let Some(undo) = operation.take_undo() {
            self.queue.count(&undo);
            postponed.push(undo);
        }
        ended.push(operation);
    }

    /// Runs operations, and runs them again while the connection breaks, for some time. Each of them gives the same result when
    /// it runs twice.
    async fn run_together_again(&mut self, operations: &mut [Operation]) -> Result<(), Fault> {
        let until = Instant::now() + TRIED_FOR;
        // What is not under way is told at once that there is no connection.
        let was_connected = self.lane.is_some();
        loop {
            let fault = match self.run_together(operations).await {
                Err(fault) if fault.is_lost_connection() => fault,
                run => return run,
            };
            self.lane = None;
            self.saved.forget();
            if !was_connected || Instant::now() + TRIED_AGAIN > until {
                return Err(fault);
            }
            tokio::time::sleep(TRIED_AGAIN).await;
        }
    }

    /// Runs operations in one transaction. After an error nothing is written, unless the connection is lost.
    async fn run_together(&mut self, operations: &mut [Operation]) -> Result<(), Fault> {
        if self.lane.as_ref().is_none_or(Lane::is_closed) {
            self.connect_again().await?;
        }
        let Some(lane) = &self.lane else { return Err(Fault::Unprepared) };
        let running = send_together(lane, operations, &mut self.saved);
        let run = tokio::time::timeout(ANSWERED_WITHIN, running).await;
        match run.unwrap_or(Err(Fault::Silent(ANSWERED_WITHIN.as_secs()))) {
            Ok(Committed { has_written, unread }) => {
                for (place, fault) in unread {
                    operations[place].work.fail(fault.store_error(&self.database));
                }
                self.commits.fetch_add(u64::from(has_written), Ordering::Relaxed);
                if std::mem::replace(&mut self.is_stuck, false) {
                    tracing::info!(database = %self.database, "it can be written again");
                }
                Ok(())
            }
            Err(fault) => {
                self.saved.forget();
                operations.iter_mut().for_each(|it| it.is_uncertain |= fault.is_lost_connection());
                Err(fault)
            }
        }
    }
}

/// Takes the lock for a connection, from its predecessor if that has it.
async fn lock(lane: &Lane, predecessor: Option<&Backend>) -> Result<Backend, Fault> {
    let taking = async {
        let client = lane.client();
        if let Some(Backend { number, started }) = predecessor {
            client.execute(END_BACKEND, &[number, started]).await?;
        }
        client.batch_execute(WAITS_FOR_LOCK).await?;
        client.batch_execute(ONE_SERVER).await?;
        client.batch_execute(HOLDS_LOCK).await?;
        let backend = client.query_one(BACKEND, &[]).await?;
        Ok(Backend { number: backend.try_get(0)?, started: backend.try_get(1)? })
    };
    let taken = tokio::time::timeout(ANSWERED_WITHIN, taking).await;
    taken.unwrap_or(Err(Fault::Silent(ANSWERED_WITHIN.as_secs()))).map_err(|fault| match fault {
        Fault::Postgres(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Fault::InUse,
        fault => Fault::Unreachable(fault.to_string()),
    })
}

/// What became of a transaction that was committed.
struct Committed {
    has_written: bool,
    /// The reads whose rows cannot be read, each by its place.
    unread: Vec<(usize, Fault)>,
}

/// Sends operations in one transaction, all at once, and waits for the answers. After an error nothing is written, unless the
/// connection is lost.
async fn send_together(
    lane: &Lane,
    operations: &mut [Operation],
    saved: &mut SavedMessages,
) -> Result<Committed, Fault> {
    let has_written = operations.iter().any(|operation| operation.changes().is_some());
    // The first poll of each sends it.
    let mut begun = sent(lane.run("BEGIN"));
    _ = poll!(&mut begun);
    let mut all = Vec::with_capacity(operations.len());
    for operation in operations {
        let is_read = operation.changes().is_none();
        let mut sent = maybe_done(operation.work.send(lane, saved));
        _ = poll!(&mut sent);
        all.push((is_read, sent));
    }
    // What cannot even be sent must not be committed in part.
    let is_whole = !all.iter().any(|(_, sent)| matches!(sent, MaybeDone::Done(Err(_))));
    let mut ended = sent(lane.run(if is_whole { "COMMIT" } else { "ROLLBACK" }));
    _ = poll!(&mut ended);
    finish(begun).await?;
    let (mut failed, mut unread) = (Ok(()), Vec::new());
    for (place, (is_read, operation)) in all.into_iter().enumerate() {
        match finish(operation).await {
            Err(fault) if is_read && !fault.is_of_postgres() => unread.push((place, fault)),
            // After the first failure, the database refuses all others: it is the one that says why.
            Err(fault) if failed.is_ok() => failed = Err(fault),
            _ => {}
        }
    }
    finish(ended).await?;
    failed.map(|()| Committed { has_written, unread })
}

fn sent<'a>(work: impl Future<Output = Result<(), Fault>> + Send + 'a) -> MaybeDone<Sent<'a>> {
    maybe_done(Box::pin(work))
}

async fn finish(mut sent: MaybeDone<Sent<'_>>) -> Result<(), Fault> {
    (&mut sent).await;
    std::pin::Pin::new(&mut sent).take_output().unwrap_or(Ok(()))
}

/// Whether an operation must not run before these writes, which wait.
fn hold_up(postponed: &[Operation], operation: &Operation) -> bool {
    let same = |waiting: &Operation| waiting.changes() == operation.changes();
    operation.has_rank(Rank::Waits) && !postponed.is_empty()
        || operation.has_rank(Rank::Fails) && postponed.iter().any(same)
}
