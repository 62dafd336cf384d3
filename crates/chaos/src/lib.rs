//! A proxy that does to a client's connections what networks do, to see what survives it.
//!
//! ```text
//! client → bytes → messages → server
//! ```
//!
//! - `bytes` cuts and stalls connections at any byte
//! - `messages` delivers whole HTTP requests late, twice, or without an answer
//! - `frames` and `sockets` do the same to SSE frames and WebSocket messages
//! - `plan` says what is done and how often
//! - `weather` has the switch, chance, and what was done
//!
//! Order on one stream is kept, as networks do. Everything that chance decides follows from a seed; when it decides
//! depends on the machine.

mod bytes;
mod frames;
mod messages;
mod plan;
mod sockets;
mod weather;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use self::plan::{Plan, Range};
use self::weather::Weather;
pub use self::weather::{Fault, Report};

/// Connections at a time in one layer; more wait to be accepted.
const CONNECTIONS: usize = 1_024;
/// How long to wait when no connection can be accepted, because no file descriptor is free.
const OUT_OF_FILES: Duration = Duration::from_millis(100);

/// A proxy in front of a server. It begins with a storm; dropping it ends all of its connections.
pub struct Chaos {
    /// Where clients find it.
    pub address: SocketAddr,
    weather: Arc<Weather>,
    tracker: TaskTracker,
    _stop: DropGuard,
}

impl Chaos {
    /// A proxy at `listen` in front of the server at `target`, a host and a port.
    ///
    /// # Errors
    /// It cannot listen there.
    pub async fn start(listen: SocketAddr, target: &str, plan: Plan) -> io::Result<Self> {
        let weather = Arc::new(Weather::new(plan));
        let stop = CancellationToken::new();
        let tracker = TaskTracker::new();
        let tasks =
            || Tasks { tracker: tracker.clone(), stop: stop.clone(), places: Arc::new(Semaphore::new(CONNECTIONS)) };
        let outer = TcpListener::bind(listen).await?;
        let inner = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, between) = (outer.local_addr()?, inner.local_addr()?);
        let layer = tasks();
        layer.spawn(bytes::serve(outer, between.to_string().into(), Arc::clone(&weather), layer.clone()));
        let layer = tasks();
        layer.spawn(messages::serve(inner, target.into(), Arc::clone(&weather), layer.clone()));
        Ok(Self { address, weather, tracker, _stop: stop.drop_guard() })
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
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

    /// What is done, and how often.
    pub fn plan(&self) -> &Plan {
        &self.weather.plan
    }

    /// The tasks that it runs, to see that they end.
    pub fn tasks(&self) -> TaskTracker {
        self.tracker.clone()
    }
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
        loop {
            // The semaphore is never closed.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { continue };
            match listener.accept().await {
                Ok((socket, _)) if socket.set_nodelay(true).is_ok() => return (socket, place),
                // It was gone at once.
                Ok(_) => {}
                Err(_) => tokio::time::sleep(OUT_OF_FILES).await,
            }
        }
    }
}
