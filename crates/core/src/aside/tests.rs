use futures_util::future::join_all;

use super::*;

#[tokio::test]
async fn work_is_done_by_the_same_few_threads_and_a_fault_ends_none_of_them() {
    let aside = Aside::default();
    let most = aside.places.available_permits();
    assert_eq!(aside.run(|| panic!("a fault, as the test wants it")).await, None::<()>);
    let threads = join_all((0..100).map(|_| aside.run(|| std::thread::current().id()))).await;
    let threads: ahash::HashSet<_> = threads.into_iter().map(|thread| thread.expect("it is done")).collect();
    assert!(threads.len() <= most, "{threads:?}");
    assert!(!threads.contains(&std::thread::current().id()));
}

#[tokio::test]
async fn what_is_short_is_done_at_once() {
    let here = std::thread::current().id();
    let aside = Aside::default();
    let at = async |bytes| aside.run_for(bytes, || std::thread::current().id()).await.expect("it is done");
    assert_eq!((at(AT_ONCE).await == here, at(AT_ONCE + 1).await == here), (true, false));
}
