use super::super::operation::{Kind, operation};
use super::*;

fn read() -> Box<dyn Operation> {
    operation(Kind::Read, |_| Ok(())).0
}

fn queue(queued: usize, queued_bytes: usize) -> Queue {
    Queue::new(&Bounds { queued, queued_bytes, ..Bounds::default() })
}

fn taken(queue: &Queue) -> usize {
    queue.take(Duration::ZERO).map_or(0, |batch| batch.len())
}

#[test]
fn what_waits_is_taken_so_many_at_a_time() {
    let queue = queue(2_000, 1_000);
    for _ in 0..1_100 {
        queue.push(0, read()).unwrap();
    }
    queue.close();
    let taken: Vec<usize> = (0..4).map(|_| taken(&queue)).collect();
    assert_eq!(taken, [BATCH, BATCH, 1_100 - 2 * BATCH, 0]);
}

#[test]
fn large_operations_are_taken_fewer_at_a_time() {
    let queue = queue(100, usize::MAX);
    for _ in 0..7 {
        queue.push(BATCH_BYTES / 3 + 1, read()).unwrap();
    }
    queue.close();
    let taken: Vec<usize> = (0..4).map(|_| taken(&queue)).collect();
    assert_eq!(taken, [3, 3, 1, 0]);
}

#[test]
fn beyond_the_bounds_nothing_is_taken() {
    let by_count = queue(2, 1_000);
    assert_eq!([0; 3].map(|bytes| by_count.push(bytes, read())), [Ok(()), Ok(()), Err(Refused::Full)]);
    assert_eq!(taken(&by_count), 2);
    assert_eq!(by_count.push(0, read()), Ok(()));

    // However large it is, an operation is taken when nothing else is there.
    let by_bytes = queue(100, 1_000);
    assert_eq!([5_000, 1].map(|bytes| by_bytes.push(bytes, read())), [Ok(()), Err(Refused::Full)]);
    assert_eq!(taken(&by_bytes), 1);
    assert_eq!([999, 1, 1].map(|bytes| by_bytes.push(bytes, read())), [Ok(()), Ok(()), Err(Refused::Full)]);
}

#[test]
fn a_queue_that_is_closed_is_emptied_and_takes_nothing() {
    let queue = queue(10, 10);
    queue.push(0, read()).unwrap();
    queue.close();
    assert_eq!(queue.push(0, read()), Err(Refused::Closed));
    assert_eq!([taken(&queue), taken(&queue)], [1, 0]);
}

#[test]
fn whoever_waits_for_nothing_goes_on() {
    let queue = queue(10, 10);
    assert!(queue.take(Duration::from_millis(1)).is_some_and(|batch| batch.is_empty()));
    queue.close();
    assert!(queue.take(Duration::from_secs(60)).is_none());
}

#[tokio::test]
async fn whoever_waits_for_what_is_abandoned_is_told() {
    let queue = queue(10, 10);
    let (operation, answer) = operation(Kind::Write, |_| Ok(()));
    queue.push(0, operation).unwrap();
    queue.abandon();
    assert!(answer.await.is_err());
    assert_eq!((queue.len(), queue.push(0, read())), (0, Err(Refused::Closed)));
}
