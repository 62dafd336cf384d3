use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::*;

/// Nodes that can be cut off from the store: what is asked then gets no answer, or an error.
#[derive(Clone)]
struct Cut {
    nodes: MemoryNodes,
    is_silent: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
}

impl Cut {
    fn new(nodes: &MemoryNodes) -> Self {
        Self { nodes: nodes.clone(), is_silent: Arc::default(), fails: Arc::default() }
    }

    fn through<T: Send + 'static>(&self, answer: impl FnOnce() -> StoreFuture<T>) -> StoreFuture<T> {
        if self.is_silent.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        if self.fails.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(StoreError::Unavailable("cut".into()))));
        }
        answer()
    }
}

impl NodeStore for Cut {
    fn join(&self, name: &str, again: Option<NodeId>) -> StoreFuture<NodeId> {
        self.through(|| self.nodes.join(name, again))
    }

    fn renew(&self, node: NodeId, load: Load) -> StoreFuture<Option<SystemTime>> {
        self.through(|| self.nodes.renew(node, load))
    }

    fn leave(&self, node: NodeId) -> StoreFuture<()> {
        self.through(|| self.nodes.leave(node))
    }

    fn nodes(&self) -> StoreFuture<Vec<NodeInfo>> {
        self.nodes.nodes()
    }
}

/// A node that keeps its lease, and whether it was a member each time that it was fenced.
struct Node {
    membership: Arc<Membership>,
    cut: Cut,
    fenced: Arc<Mutex<Vec<bool>>>,
    keeping: JoinHandle<()>,
}

async fn node(nodes: &MemoryNodes) -> Node {
    let cut = Cut::new(nodes);
    let membership = Membership::join(Arc::new(cut.clone()), Clock::running(), "here:4096").await.unwrap();
    let (membership, fenced) = (Arc::new(membership), Arc::<Mutex<Vec<_>>>::default());
    let (kept, noted) = (membership.clone(), fenced.clone());
    let keeping = TaskTracker::new().spawn(async move {
        let fence = || noted.lock().unwrap().push(kept.is_member());
        kept.keep(|| Load { sessions: 1, clients: 2, calls: 3 }, fence).await;
    });
    Node { membership, cut, fenced, keeping }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn leases(nodes: &MemoryNodes) -> Vec<(i64, bool)> {
    let nodes = nodes.nodes().await.unwrap();
    nodes.iter().map(|node| (node.id.number(), node.lease > Duration::ZERO)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_its_lease_until_it_leaves() {
    let nodes = MemoryNodes::new(Clock::running());
    let (one, two) = (node(&nodes).await, node(&nodes).await);
    seconds(3_600).await;
    assert_eq!(leases(&nodes).await, [(1, true), (2, true)]);
    let load = Load { sessions: 1, clients: 2, calls: 3 };
    assert!(nodes.nodes().await.unwrap().iter().all(|node| node.load == load && node.lease > FENCED_AFTER - HEARTBEAT));
    one.keeping.abort();
    one.membership.leave().await.unwrap();
    assert_eq!(leases(&nodes).await, [(2, true)]);
    // One that ends without a word is missed after a while.
    two.keeping.abort();
    seconds(9).await;
    assert_eq!(leases(&nodes).await, [(2, false)]);
    assert!(two.fenced.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_renew_its_lease_is_fenced_before_it_is_over_and_joins_again() {
    for is_silent in [true, false] {
        let nodes = MemoryNodes::new(Clock::running());
        let one = node(&nodes).await;
        seconds(11).await;
        let cut = if is_silent { &one.cut.is_silent } else { &one.cut.fails };
        cut.store(true, Ordering::Relaxed);
        // The lease was renewed at 10 s.
        tokio::time::sleep(Duration::from_millis(4_900)).await;
        assert!(one.membership.is_member(), "{is_silent}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!one.membership.is_member(), "{is_silent}");
        assert_eq!(leases(&nodes).await, [(1, true)]);
        seconds(30).await;
        assert_eq!(leases(&nodes).await, [(1, false)]);
        cut.store(false, Ordering::Relaxed);
        seconds(3).await;
        assert!(one.membership.is_member(), "{is_silent}");
        assert_eq!(leases(&nodes).await, [(1, true)]);
        seconds(60).await;
        assert!(one.membership.is_member(), "{is_silent}");
        assert_eq!(*one.fenced.lock().unwrap(), [false], "{is_silent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_loss_of_the_store_fences_nobody() {
    let nodes = MemoryNodes::new(Clock::running());
    let one = node(&nodes).await;
    for _ in 0..5 {
        one.cut.fails.store(true, Ordering::Relaxed);
        seconds(3).await;
        one.cut.fails.store(false, Ordering::Relaxed);
        seconds(3).await;
    }
    assert!(one.membership.is_member() && one.fenced.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_slept_too_long_is_fenced_before_it_asks() {
    let nodes = MemoryNodes::new(Clock::running());
    let one = node(&nodes).await;
    seconds(11).await;
    // The whole process stands still meanwhile: nothing is polled.
    tokio::time::advance(Duration::from_secs(20)).await;
    seconds(3).await;
    assert_eq!(*one.fenced.lock().unwrap(), [false]);
    assert!(one.membership.is_member());
    assert_eq!(leases(&nodes).await, [(1, true)]);
}
