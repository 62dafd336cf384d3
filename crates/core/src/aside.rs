//! A small thread pool for work that takes long, outside of the threads that serve.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::sync::{Semaphore, oneshot};

/// Bytes of JSON that a serving thread reads itself; more takes longer than others should wait.
const AT_ONCE: usize = 128 << 10;

/// The stack of each thread: what is nested as deep as it may be needs a fraction of it.
const STACK: usize = 4 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// A small thread pool: each thread does one piece of work after the other. Unlike tokio's blocking pool it always has the
/// same threads: what an allocator keeps for a thread is kept for these only.
#[derive(Debug, Clone)]
pub struct Aside {
    /// One for each thread; whoever gets none waits for its turn.
    places: Arc<Semaphore>,
    give: mpsc::Sender<Work>,
}

impl Default for Aside {
    /// Half of the cores are left to those who are served.
    fn default() -> Self {
        let threads = (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(1);
        let (give, take) = mpsc::channel::<Work>();
        let take = Arc::new(Mutex::new(take));
        for _ in 0..threads {
            let take = take.clone();
            let next = move || take.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let thread = std::thread::Builder::new().name("handback-aside".into()).stack_size(STACK);
            // Ends when nobody can give it work any more.
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
    /// Does some work. `None` when it came to no end: the server ends, or the work is faulty.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (give, mut result) = oneshot::channel();
        // Nobody may wait any more.
        self.run_boxed(Box::new(move || _ = give.send(work()))).await?;
        result.try_recv().ok()
    }

    /// The same for all kinds of results, so that it is compiled once.
    async fn run_boxed(&self, work: Work) -> Option<()> {
        let place = self.places.clone().acquire_owned().await.ok()?;
        let (done, is_done) = mpsc::sync_channel(1);
        let work = move || {
            // A faulty one has dropped its sender of the result, which says so.
            _ = catch_unwind(AssertUnwindSafe(work));
            _ = done.send(());
            drop(place);
        };
        self.give.send(Box::new(work)).ok()?;
        // Waits on a blocking thread, so that the paused clock of a test does not advance meanwhile.
        tokio::task::spawn_blocking(move || is_done.recv().ok()).await.ok().flatten()
    }

    /// Does what is to be done for so many bytes of JSON: at once if they are few.
    pub async fn run_for<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if bytes <= AT_ONCE { Some(work()) } else { self.run(work).await }
    }
}

#[cfg(test)]
mod tests;
