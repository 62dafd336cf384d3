//! A small thread pool for work that would hold up the serving threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::sync::{Semaphore, oneshot};

/// Bytes of JSON that a serving thread reads itself. More would keep others waiting too long.
const AT_ONCE: usize = 128 << 10;

/// The stack of each thread. The deepest allowed nesting needs a fraction of it.
const STACK: usize = 4 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// A small thread pool: each thread does one piece of work after the other. Unlike tokio's blocking pool it always has
/// the same threads, so that only these have memory that an allocator keeps per thread.
#[derive(Debug, Clone)]
pub struct Aside {
    /// One permit per thread. Work without a permit waits.
    places: Arc<Semaphore>,
    give: mpsc::Sender<Work>,
}

impl Default for Aside {
    /// Uses half of the cores; the others are for the serving threads.
    fn default() -> Self {
        let threads = (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(1);
        let (give, take) = mpsc::channel::<Work>();
        let take = Arc::new(Mutex::new(take));
        for _ in 0..threads {
            let take = take.clone();
            let next = move || take.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let thread = std::thread::Builder::new().name("handback-aside".into()).stack_size(STACK);
            // The thread ends when nobody can send it work any more.
            let started = thread.spawn(move || {
                while let Ok(work) = next() {
                    work()
                }
            });
            if let Err(error) = started {
                tracing::error!(%error, "a thread cannot be started");
            }
        }
        Self { places: Arc::new(Semaphore::new(threads)), give }
    }
}

impl Aside {
    /// Runs work on the pool. `None` if it did not complete: the server is stopping, or the work panicked.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (give, mut result) = oneshot::channel();
        // The receiver may be gone.
        self.run_boxed(Box::new(move || _ = give.send(work()))).await?;
        result.try_recv().ok()
    }

    /// The part that does not depend on the type of the result, so that it is compiled once.
    async fn run_boxed(&self, work: Work) -> Option<()> {
        let place = self.places.clone().acquire_owned().await.ok()?;
        let (done, is_done) = mpsc::sync_channel(1);
        let work = move || {
            // Work that panicked has dropped its result sender, which tells the caller.
            _ = catch_unwind(AssertUnwindSafe(work));
            _ = done.send(());
            drop(place);
        };
        self.give.send(Box::new(work)).ok()?;
        // Waits on a blocking thread, so that the paused clock of a test does not advance meanwhile.
        tokio::task::spawn_blocking(move || is_done.recv().ok()).await.ok().flatten()
    }

    /// Runs work on this many bytes of JSON: on this thread if they are few, else on the pool (boxed, since it is rare).
    pub async fn run_for<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if bytes <= AT_ONCE { Some(work()) } else { Box::pin(self.run(work)).await }
    }
}

#[cfg(test)]
mod tests;
