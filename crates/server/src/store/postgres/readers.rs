//! The connections for reads. They take turns, and are opened when they are first needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fault::Fault;
use super::lane::{Address, Lane};
use super::messages::SavedMessages;
use super::operation::Work;

pub(super) struct Readers {
    address: Address,
    places: Vec<Mutex<Place>>,
    next: AtomicUsize,
    /// How long a read may take. Then its connection is given up.
    patience: Duration,
}

impl Readers {
    pub(super) fn new(address: Address, connections: usize, patience: Duration) -> Self {
        let places = std::iter::repeat_with(Mutex::default).take(connections).collect();
        Self { address, places, next: AtomicUsize::new(0), patience }
    }

    /// Reads, and replies. If the connection breaks, it is read once more over another one.
    pub(super) async fn read(&self, mut work: Box<dyn Work>, database: &str) {
        let mut read = self.try_to_read(&mut *work).await;
        if read.as_ref().is_err_and(Fault::is_broken_connection) {
            read = self.try_to_read(&mut *work).await;
        }
        if let Err(fault) = read {
            work.fail(fault.store_error(database));
        }
        work.reply();
    }

    async fn try_to_read(&self, work: &mut dyn Work) -> Result<(), Fault> {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.places.len();
        let lane = self.lane(place).await?;
        let reading = work.send(&lane, &mut SavedMessages::default());
        match tokio::time::timeout(self.patience, reading).await {
            Ok(read) => read,
            Err(_) => {
                self.places[place].lock().await.lane = None;
                Err(Fault::Silent(self.patience.as_secs()))
            }
        }
    }

    async fn lane(&self, place: usize) -> Result<Arc<Lane>, Fault> {
        let asked = Instant::now();
        let mut place = self.places[place].lock().await;
        if let Some(open) = place.lane.as_ref().filter(|lane| !lane.is_closed()) {
            return Ok(open.clone());
        }
        if let Some((at, cause)) = &place.failed
            && *at >= asked
        {
            return Err(Fault::Unreachable(cause.clone()));
        }
        match Lane::open(&self.address).await {
            Ok(lane) => Ok(place.lane.insert(Arc::new(lane)).clone()),
            Err(fault) => {
                place.failed = Some((Instant::now(), fault.to_string()));
                Err(fault)
            }
        }
    }
}

/// A connection that is opened when it is needed.
#[derive(Default)]
struct Place {
    lane: Option<Arc<Lane>>,
    /// When it could not be opened the last time, and why. Whoever waited meanwhile does not try it again.
    failed: Option<(Instant, String)>,
}
