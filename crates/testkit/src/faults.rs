//! A proxy on loopback that does to a client's connections what networks do, for the tests of what survives it.
//!
//! ```text
//! client → bytes → messages → server
//! ```
//!
//! - `bytes` cuts and stalls connections at any byte
//! - `messages` delivers whole HTTP requests late, twice, or without an answer
//! - `frames` and `sockets` do the same to SSE frames and WebSocket messages
//! - `weather` has the switch, chance, and what was done
//!
//! Order on one stream is kept, as networks do. Everything that chance decides follows from a seed; when it decides
//! depends on the machine.

mod bytes;
mod frames;
mod messages;
mod sockets;
mod weather;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::weather::Weather;
pub use self::weather::{Fault, Report, Severity};

/// Connections at a time in one layer; more wait to be accepted.
const CONNECTIONS: usize = 1_024;

/// A proxy in front of a server. It begins with a storm; dropping it ends all of its connections.
pub struct Faults {
    /// Where clients find it.
    pub url: String,
    /// The same, as an address.
    pub address: SocketAddr,
    seed: u64,
    weather: Arc<Weather>,
    tracker: TaskTracker,
    _stop: DropGuard,
}

impl Faults {
    /// A proxy in front of the server at `upstream`.
    ///
    /// # Errors
    /// No port could be had.
    pub async fn start(upstream: SocketAddr, seed: u64) -> io::Result<Self> {
        Self::with(upstream, seed, Severity::default()).await
    }

    /// The same, with a storm of this kind.
    ///
    /// # Errors
    /// No port could be had.
    pub async fn with(upstream: SocketAddr, seed: u64, severity: Severity) -> io::Result<Self> {
        let weather = Arc::new(Weather::new(severity, seed));
        let stop = CancellationToken::new();
        let tracker = TaskTracker::new();
        let tasks =
            || Tasks { tracker: tracker.clone(), stop: stop.clone(), places: Arc::new(Semaphore::new(CONNECTIONS)) };
        let outer = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let inner = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, between) = (outer.local_addr()?, inner.local_addr()?);
        let layer = tasks();
        layer.spawn(bytes::serve(outer, between, Arc::clone(&weather), layer.clone()));
        let layer = tasks();
        layer.spawn(messages::serve(inner, upstream, Arc::clone(&weather), layer.clone()));
        Ok(Self { url: format!("http://{address}"), address, seed, weather, tracker, _stop: stop.drop_guard() })
    }

    /// From now on everything passes unharmed; stalls and delays end.
    pub fn calm(&self) {
        self.weather.turn(false);
    }

    /// From now on there are faults.
    pub fn storm(&self) {
        self.weather.turn(true);
    }

    /// How often each fault was done so far.
    pub fn report(&self) -> Report {
        self.weather.report()
    }

    /// What chance follows from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The tasks that it runs, to see that they end.
    pub fn tasks(&self) -> TaskTracker {
        self.tracker.clone()
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("FAULTS_SEED={}\n{:?}", self.seed, self.report());
        }
    }
}

/// The seed that `FAULTS_SEED` names, or a new one.
pub fn seed() -> u64 {
    std::env::var("FAULTS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..))
}

/// The tasks of one layer: all end when the proxy is dropped.
#[derive(Clone)]
struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    places: Arc<Semaphore>,
}

impl Tasks {
    fn spawn(&self, task: impl Future<Output: Send> + Send + 'static) {
        self.tracker.spawn(self.stop.clone().run_until_cancelled_owned(task));
    }

    /// The next connection, and its place among those that may be open.
    async fn accept(&self, listener: &TcpListener) -> (TcpStream, OwnedSemaphorePermit) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        loop {
            if let Ok((socket, _)) = listener.accept().await
                && socket.set_nodelay(true).is_ok()
            {
                return (socket, place);
            }
        }
    }
}
