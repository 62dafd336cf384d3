//! The bus over PostgreSQL's `NOTIFY`: a connection of its own listens to the node's channel and to the one for all.
//!
//! Notes are sent in transactions of their own, after what they point at is committed, and many at a time: PostgreSQL lets
//! one transaction with notes commit at a time, so these have nothing else to do.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ahash::HashSet;
use futures_util::future::try_join_all;
use handback_core::bus::{Bus, Hearing, Inbox, Note};
use handback_core::id::NodeId;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Client};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::store::postgres::{Address, BadAddress, name_of, read_address};

/// The channel for all nodes. The channel of a node has its number behind this.
const CHANNEL: &str = "handback";
/// How many bytes a notification may have.
const LARGEST: usize = 7_900;
/// How many notes wait to be sent to one channel. When there are more, they are dropped: nodes also look by themselves.
const MOST: usize = 4_096;
/// How long it may take to connect.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
/// How long to wait before the next try to connect.
const TRIED_AGAIN: Duration = Duration::from_millis(250);
/// How often a node looks everywhere if nothing can be heard over its connection.
const LOOKS_EVERY: Duration = Duration::from_millis(250);

const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// A bus over PostgreSQL. Dropping it disconnects.
pub struct PostgresBus {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

struct Shared {
    node: NodeId,
    address: Address,
    /// The database's name, for the log.
    database: String,
    inbox: Inbox,
    /// What is to be sent, by the node, or to all.
    outgoing: Mutex<BTreeMap<Option<NodeId>, HashSet<Note>>>,
    more: Notify,
    is_listening: AtomicBool,
}

/// A connection that listens.
struct Listening {
    client: Client,
    /// Reads what arrives, for as long as this is there.
    _connection: AbortOnDropHandle<()>,
    /// Cancelled when the connection is closed.
    closed: CancellationToken,
    /// Whether notes arrive: not if something between here and the database shares its connections.
    hears: bool,
}

impl PostgresBus {
    /// The bus of a node. It connects in the background, and as often as it has to. Needs a runtime.
    pub fn new(url: &str, node: NodeId) -> Result<Self, BadAddress> {
        let (address, database) = (read_address(url)?, name_of(url)?);
        let shared = Arc::new(Shared {
            node,
            address,
            database,
            inbox: Inbox::default(),
            outgoing: Mutex::default(),
            more: Notify::new(),
            is_listening: AtomicBool::new(false),
        });
        let _task = AbortOnDropHandle::new(Handle::current().spawn(keep_listening(shared.clone())));
        Ok(Self { shared, _task })
    }

    /// Whether notes arrive at the moment.
    pub fn is_listening(&self) -> bool {
        self.shared.is_listening.load(Ordering::Relaxed)
    }
}

impl Bus for PostgresBus {
    fn send(&self, to: NodeId, note: Note) {
        self.shared.put(Some(to), note);
    }

    fn broadcast(&self, note: Note) {
        self.shared.put(None, note);
    }

    fn hear(&self) -> Hearing<'_> {
        Box::pin(self.shared.inbox.take())
    }
}

impl Shared {
    fn put(&self, to: Option<NodeId>, note: Note) {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        let notes = outgoing.entry(to).or_default();
        if notes.len() < MOST {
            notes.insert(note);
        }
        drop(outgoing);
        self.more.notify_one();
    }

    /// Connects and listens.
    async fn listen(self: &Arc<Self>) -> Result<Listening, tokio_postgres::Error> {
        let (client, mut connection) = self.address.config.connect(self.address.tls.clone()).await?;
        let (shared, closed) = (self.clone(), CancellationToken::new());
        let closes = closed.clone().drop_guard();
        let reading = async move {
            let _closes = closes;
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    shared.heard(notification.payload());
                }
            }
        };
        let _connection = AbortOnDropHandle::new(Handle::current().spawn(reading));
        let mut listening = Listening { client, _connection, closed, hears: true };
        let node = self.node;
        let listen = format!("SET synchronous_commit = off; LISTEN {CHANNEL}; LISTEN {CHANNEL}_{node}");
        listening.client.batch_execute(&listen).await?;
        let channels = "SELECT count(*) FROM pg_listening_channels()";
        listening.hears = listening.client.query_one(channels, &[]).await?.try_get::<_, i64>(0)? > 0;
        Ok(listening)
    }

    /// Reads a notification: the number of its sender, and the notes, a line each.
    fn heard(&self, payload: &str) {
        let mut lines = payload.lines();
        if lines.next() == Some(&*self.node.to_string()) {
            return;
        }
        // A newer version may have notes that are not known here.
        lines.filter_map(|line| line.parse().ok()).for_each(|note| self.inbox.put(note));
    }

    /// Sends what waits, as long as the connection is there.
    async fn send_all(&self, listening: &Listening) -> Result<(), tokio_postgres::Error> {
        let notify = listening.client.prepare(NOTIFY).await?;
        loop {
            let outgoing = std::mem::take(&mut *self.outgoing.lock().unwrap_or_else(PoisonError::into_inner));
            if outgoing.is_empty() {
                tokio::select! {
                    () = self.more.notified() => continue,
                    () = listening.closed.cancelled() => return Ok(()),
                }
            }
            let mut notifications = Vec::with_capacity(outgoing.len());
            for (to, notes) in outgoing {
                let channel = to.map_or_else(|| CHANNEL.to_owned(), |node| format!("{CHANNEL}_{node}"));
                notifications.extend(self.pack(notes).into_iter().map(|payload| (channel.clone(), payload)));
            }
            let notify = &notify;
            try_join_all(
                notifications
                    .iter()
                    .map(async |(channel, payload)| listening.client.query(notify, &[channel, payload]).await),
            )
            .await?;
        }
    }

    /// Puts notes into as few notifications as they fit in.
    fn pack(&self, notes: HashSet<Note>) -> Vec<String> {
        let mut packed: Vec<String> = Vec::new();
        for note in notes {
            let line = note.to_string();
            match packed.last_mut() {
                Some(last) if last.len() + 1 + line.len() <= LARGEST => {
                    last.push('\n');
                    last.push_str(&line);
                }
                _ => packed.push(format!("{}\n{line}", self.node)),
            }
        }
        packed
    }
}

/// Listens and sends, and connects again when the connection is lost.
async fn keep_listening(shared: Arc<Shared>) {
    let database = &shared.database;
    let mut is_lost = false;
    loop {
        let listening = match tokio::time::timeout(CONNECTED_WITHIN, shared.listen()).await {
            Ok(Ok(listening)) => Some(listening),
            Ok(Err(error)) => {
                report_loss(&mut is_lost, database, &error);
                None
            }
            Err(_elapsed) => {
                report_loss(&mut is_lost, database, &"it does not answer");
                None
            }
        };
        if let Some(listening) = listening {
            if listening.hears && std::mem::take(&mut is_lost) {
                tracing::info!(%database, "notes of other nodes arrive again");
            }
            shared.is_listening.store(listening.hears, Ordering::Relaxed);
            // Whatever was sent before is lost.
            shared.inbox.miss();
            let looking = async {
                if listening.hears {
                    return std::future::pending().await;
                }
                tracing::warn!(%database, "no notes arrive over this connection, which seems to be shared; name one that is not");
                loop {
                    tokio::time::sleep(LOOKS_EVERY).await;
                    shared.inbox.miss();
                }
            };
            let sent = tokio::select! {
                sent = shared.send_all(&listening) => sent,
                () = looking => Ok(()),
            };
            shared.is_listening.store(false, Ordering::Relaxed);
            match sent {
                Ok(()) => report_loss(&mut is_lost, database, &"the connection was closed"),
                Err(error) => report_loss(&mut is_lost, database, &error),
            }
        }
        tokio::time::sleep(TRIED_AGAIN).await;
    }
}

fn report_loss(is_lost: &mut bool, database: &str, cause: &dyn std::fmt::Display) {
    if !std::mem::replace(is_lost, true) {
        tracing::warn!(%database, %cause, "no notes of other nodes arrive; they are looked for every second");
    }
}
