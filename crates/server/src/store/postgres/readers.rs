//! The connections for reads. They take turns, and are opened when they are first needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::fault::Fault;
use super::lane::{Address, Lane};
use super::messages::SavedMessages;
use super::operation::Work;

/// How many connections read.
const READERS: usize = 4;
/// How long a read may take. Then its connection is given up.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Readers {
    address: Address,
    lanes: [Mutex<Option<Arc<Lane>>>; READERS],
    next: AtomicUsize,
}

impl Readers {
    pub(super) fn new(address: Address) -> Self {
        Self { address, lanes: Default::default(), next: AtomicUsize::new(0) }
    }

    /// Reads, and replies. If the connection breaks, it is read once more over another one.
    pub(super) async fn read(&self, mut work: Box<dyn Work>, database: &str) {
        let mut read = self.try_to_read(&mut *work).await;
        if read.as_ref().is_err_and(Fault::is_lost_connection) {
            read = self.try_to_read(&mut *work).await;
        }
        if let Err(fault) = read {
            work.fail(fault.store_error(database));
        }
        work.reply();
    }

    async fn try_to_read(&self, work: &mut dyn Work) -> Result<(), Fault> {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % READERS;
        let lane = self.lane(place).await?;
        let reading = work.send(&lane, &mut SavedMessages::default());
        match tokio::time::timeout(ANSWERED_WITHIN, reading).await {
            Ok(read) => read,
            Err(_) => {
                *self.lanes[place].lock().await = None;
                Err(Fault::Silent(ANSWERED_WITHIN.as_secs()))
            }
        }
    }

    async fn lane(&self, place: usize) -> Result<Arc<Lane>, Fault> {
        let mut lane = self.lanes[place].lock().await;
        match &*lane {
            Some(open) if !open.is_closed() => Ok(open.clone()),
            _ => Ok(lane.insert(Arc::new(Lane::open(&self.address).await?)).clone()),
        }
    }
}
