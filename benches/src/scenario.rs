//! The scenarios: what is set up for a run, with which servers, and what the load generator is told.

use std::fmt;

use crate::numbers::thousands;

/// How many calls are under way at any time, in every scenario.
pub(crate) const CONCURRENCY: u32 = 32;

/// How many clients are connected in the crowded scenarios.
pub(crate) const CROWD: u32 = 5_000;

/// The numbers of clients that are all called.
pub(crate) const SIZES: [u32; 3] = [1, 100, 1_000];

/// The numbers of clients whose sessions run turns: the same as those of calls, for turns are compared with them.
pub(crate) const TURN_SIZES: [u32; 2] = [SIZES[0], SIZES[1]];

/// How many clients there are where it is something else that changes.
pub(crate) const USUAL: u32 = 100;

/// How many sessions wait for one client.
pub(crate) const WAITING: u32 = 1_000;

/// How many turns sessions grow to.
pub(crate) const GROWN: u32 = 1_000;

/// Where Handback keeps what it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Store {
    /// In memory, by `--ephemeral`.
    Memory,
    /// In a file, as by default; here in a folder that goes with the server.
    Sqlite,
    /// In a PostgreSQL database, by `--database`; here in one that goes with the server.
    Postgres,
}

impl Store {
    /// The stores that everything is measured with.
    pub(crate) const ALL: [Self; 2] = [Self::Memory, Self::Sqlite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }
}

/// The servers that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Peer {
    Handback(Store),
    Floor,
}

impl Peer {
    pub(crate) const HANDBACK: [Self; 2] = [Self::Handback(Store::Memory), Self::Handback(Store::Sqlite)];
    pub(crate) const ALL: [Self; 3] = [Self::HANDBACK[0], Self::HANDBACK[1], Self::Floor];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Handback(Store::Memory) => "Handback",
            Self::Handback(Store::Sqlite) => "Handback, SQLite",
            Self::Handback(Store::Postgres) => "Handback, PostgreSQL",
            Self::Floor => "floor",
        }
    }
}

/// What is set up for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// So many clients, all of them called in turn.
    Busy(u32),
    /// [`CROWD`] clients, one of them called.
    OneOfMany,
    /// [`CROWD`] clients over WebSocket, none called.
    IdleSockets,
    /// [`USUAL`] clients, all of them called in turn, and a server that waits for the disk with every write.
    OnDisk,
    /// [`USUAL`] clients, all of them called in turn, and a server that logs each request and each stage of a call.
    Logged,
    /// [`USUAL`] clients, all of them called in turn, and a server with so many threads.
    Workers(u32),
    /// No server: calls through the hub itself.
    Hub(Threads),
    /// So many clients, and sessions that run turns with one call in each.
    Turns(u32),
    /// Turns of [`USUAL`] clients while events are read.
    Read(Readers),
    /// Sessions that run [`GROWN`] turns each.
    Growing,
    /// [`WAITING`] sessions of one client that does not answer.
    Waiting,
}

/// The threads that share a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Threads {
    /// It has it alone.
    One,
    /// They share it.
    Two,
    /// Each has one of its own.
    Apart,
}

/// Who reads events while turns run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Readers {
    /// Of sessions in which nothing happens.
    Others,
    /// Of all that happens.
    Everything,
}

impl Readers {
    pub(crate) fn count(self) -> u32 {
        match self {
            Self::Others => 400,
            Self::Everything => 100,
        }
    }
}

impl Scenario {
    /// Every scenario, in the order in which they are run. Those of a group are compared, and take turns.
    pub(crate) const GROUPS: [&[Self]; 8] = [
        &[Self::OneOfMany, Self::Busy(SIZES[0]), Self::Turns(TURN_SIZES[0])],
        &[
            Self::Busy(SIZES[1]),
            Self::OnDisk,
            Self::Logged,
            Self::Turns(TURN_SIZES[1]),
            Self::Read(Readers::Others),
            Self::Read(Readers::Everything),
        ],
        &[Self::Busy(SIZES[2])],
        &[Self::IdleSockets],
        &[Self::Workers(1), Self::Workers(2)],
        &[Self::Hub(Threads::One), Self::Hub(Threads::Two), Self::Hub(Threads::Apart)],
        &[Self::Growing],
        &[Self::Waiting],
    ];

    /// The same, one by one.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::GROUPS.into_iter().flatten().copied()
    }

    /// Those that are measured on PostgreSQL, too.
    pub(crate) const ON_POSTGRES: [Self; 3] = [Self::Busy(SIZES[0]), Self::Busy(SIZES[1]), Self::Turns(TURN_SIZES[1])];

    /// Whoever can do it: the floor has no WebSocket and no sessions, and the hub alone has one store.
    pub(crate) fn peers(self) -> impl Iterator<Item = Peer> {
        let peers: &[Peer] = match self {
            Self::Busy(_) | Self::OneOfMany | Self::Workers(_) => &Peer::ALL,
            Self::IdleSockets | Self::Logged | Self::Turns(_) | Self::Read(_) | Self::Growing | Self::Waiting => {
                &Peer::HANDBACK
            }
            Self::OnDisk => &[Peer::Handback(Store::Sqlite)],
            Self::Hub(_) => &[Peer::Handback(Store::Memory)],
        };
        // The last one, so that nothing comes between the others.
        let postgres = Self::ON_POSTGRES.contains(&self).then_some(Peer::Handback(Store::Postgres));
        peers.iter().copied().chain(postgres)
    }

    /// Whether calls or turns are made and timed in it.
    pub(crate) fn has_load(self) -> bool {
        matches!(
            self,
            Self::Busy(_)
                | Self::OnDisk
                | Self::Logged
                | Self::OneOfMany
                | Self::Workers(_)
                | Self::Turns(_)
                | Self::Read(_)
        )
    }

    /// What the server is told, besides its store.
    pub(crate) fn server_arguments(self) -> Vec<String> {
        match self {
            Self::Workers(workers) => vec!["--workers".to_owned(), workers.to_string()],
            _ => Vec::new(),
        }
    }

    /// What is set in the server's environment.
    pub(crate) fn server_settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::OnDisk => &[("HANDBACK_DURABILITY", "power")],
            Self::Logged => &[("HANDBACK_LOG", "info")],
            _ => &[],
        }
    }

    /// What the load generator is told.
    pub(crate) fn arguments(self) -> Vec<String> {
        let text = match self {
            Self::Busy(clients) => format!("--clients {clients} --concurrency {CONCURRENCY}"),
            Self::OnDisk | Self::Logged | Self::Workers(_) => format!("--clients {USUAL} --concurrency {CONCURRENCY}"),
            Self::OneOfMany => format!("--clients {CROWD} --active 1 --concurrency {CONCURRENCY}"),
            Self::IdleSockets => format!("--clients {CROWD} --websocket --idle"),
            Self::Hub(Threads::One) => "--threads 1".to_owned(),
            Self::Hub(Threads::Two) => "--threads 2".to_owned(),
            Self::Hub(Threads::Apart) => "--threads 2 --apart".to_owned(),
            Self::Turns(clients) => format!("--turns --clients {clients} --concurrency {CONCURRENCY}"),
            Self::Read(readers) => {
                let reading = match readers {
                    Readers::Others => "others",
                    Readers::Everything => "everything",
                };
                let count = readers.count();
                format!("--turns --clients {USUAL} --concurrency {CONCURRENCY} --readers {count} --reading {reading}")
            }
            Self::Growing => format!("--growing {GROWN} --clients {USUAL} --concurrency {CONCURRENCY}"),
            Self::Waiting => format!("--waiting {WAITING}"),
        };
        text.split(' ').map(str::to_owned).collect()
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crowd = thousands(f64::from(CROWD));
        match self {
            Self::Busy(clients) => write!(f, "{}", crowd_of(*clients)),
            Self::OneOfMany => write!(f, "{crowd} clients, one called"),
            Self::IdleSockets => write!(f, "{crowd} idle WebSockets"),
            Self::OnDisk => write!(f, "{}, durability \"power\"", crowd_of(USUAL)),
            Self::Logged => write!(f, "{}, log \"info\"", crowd_of(USUAL)),
            Self::Workers(1) => write!(f, "{}, 1 worker", crowd_of(USUAL)),
            Self::Workers(workers) => write!(f, "{}, {workers} workers", crowd_of(USUAL)),
            Self::Hub(Threads::One) => write!(f, "the hub alone, 1 thread"),
            Self::Hub(Threads::Two) => write!(f, "the hub alone, 2 threads"),
            Self::Hub(Threads::Apart) => write!(f, "the hub alone, 2 threads with a hub each"),
            Self::Turns(clients) => write!(f, "turns, {}", crowd_of(*clients)),
            Self::Read(readers) => write!(f, "turns, {readers}"),
            Self::Growing => write!(f, "sessions of {} turns", thousands(f64::from(GROWN))),
            Self::Waiting => write!(f, "{} waiting sessions", thousands(f64::from(WAITING))),
        }
    }
}

impl fmt::Display for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        match self {
            Self::Others => write!(f, "{count} readers of other sessions"),
            Self::Everything => write!(f, "{count} readers of everything"),
        }
    }
}

pub(crate) fn crowd_of(clients: u32) -> String {
    match clients {
        1 => "1 client".to_owned(),
        _ => format!("{} clients", thousands(f64::from(clients))),
    }
}
