use super::super::operation;
use super::*;

fn write() -> Box<dyn Write> {
    operation::write(|_| Ok(())).0
}

fn read() -> Read {
    operation::read(&"the file".into(), |_| Ok(())).0
}

fn session(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
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
        queue.write(None, 0, Rank::Fails, write()).unwrap();
    }
    queue.close();
    let taken: Vec<usize> = (0..4).map(|_| taken(&queue)).collect();
    assert_eq!(taken, [BATCH, BATCH, 1_100 - 2 * BATCH, 0]);
}

#[test]
fn large_operations_are_taken_fewer_at_a_time() {
    let queue = queue(100, usize::MAX);
    for _ in 0..7 {
        queue.write(None, BATCH_BYTES / 3 + 1, Rank::Fails, write()).unwrap();
    }
    queue.close();
    let taken: Vec<usize> = (0..4).map(|_| taken(&queue)).collect();
    assert_eq!(taken, [3, 3, 1, 0]);
}

#[test]
fn beyond_the_bounds_nothing_is_taken() {
    let by_count = queue(2, 1_000);
    assert_eq!(
        [0; 3].map(|bytes| by_count.write(None, bytes, Rank::Fails, write())),
        [Ok(()), Ok(()), Err(Refused::Full)]
    );
    assert_eq!(taken(&by_count), 2);
    assert_eq!(by_count.write(None, 0, Rank::Fails, write()), Ok(()));

    // However large it is, an operation is taken when nothing else is there.
    let by_bytes = queue(100, 1_000);
    assert_eq!([5_000, 1].map(|bytes| by_bytes.write(None, bytes, Rank::Fails, write())), [Ok(()), Err(Refused::Full)]);
    assert_eq!(taken(&by_bytes), 1);
    assert_eq!(
        [999, 1, 1].map(|bytes| by_bytes.write(None, bytes, Rank::Fails, write())),
        [Ok(()), Ok(()), Err(Refused::Full)]
    );
}

#[test]
fn a_queue_that_is_closed_is_emptied_and_takes_nothing() {
    let queue = queue(10, 10);
    queue.write(None, 0, Rank::Fails, write()).unwrap();
    queue.close();
    assert_eq!(queue.write(None, 0, Rank::Fails, write()), Err(Refused::Closed));
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
    let queue = Arc::new(queue);
    let (operation, written) = operation::write(|_| Ok(()));
    queue.write(None, 0, Rank::Fails, operation).unwrap();
    let (read, looked) = operation::read(&"the file".into(), |_| Ok(()));
    queue.read(Some(&session("idle")), read).unwrap();
    drop(AbandonOnDrop(queue.clone()));
    assert!(written.await.is_err() && looked.await.is_err());
    assert!(queue.take_read().is_none());
    assert_eq!((queue.len(), queue.write(None, 0, Rank::Fails, write())), (0, Err(Refused::Closed)));
}

#[test]
fn a_read_waits_for_the_writer_only_if_something_of_its_session_is_not_written_yet() {
    let queue = queue(100, 100);
    let (busy, idle) = (session("busy"), session("idle"));
    // Where reads of the busy session, of the idle one and of everything go: how many wait for the writer.
    let waiting = |queue: &Queue| {
        [Some(&busy), Some(&idle), None].map(|session| {
            let before = queue.lock().operations.len();
            queue.read(session, read()).unwrap();
            queue.lock().operations.len() - before
        })
    };
    assert_eq!(waiting(&queue), [0, 0, 0]);
    for _ in 0..2 {
        queue.write(Some(busy.clone()), 0, Rank::Fails, write()).unwrap();
        assert_eq!(waiting(&queue), [1, 0, 1]);
    }
    let batch = queue.take(Duration::ZERO).unwrap();
    assert_eq!(batch.len(), 2 + 4);
    assert_eq!(waiting(&queue), [1, 0, 1], "what was taken is not written yet");
    queue.write(Some(busy.clone()), 0, Rank::Fails, write()).unwrap();
    queue.settle(&batch);
    assert_eq!(waiting(&queue), [1, 0, 1], "another one came");
    let batch = queue.take(Duration::ZERO).unwrap();
    queue.settle(&batch);
    assert_eq!(waiting(&queue), [0, 0, 0]);
    // A write to no session keeps those waiting who look at everything.
    queue.write(None, 0, Rank::Fails, write()).unwrap();
    assert_eq!(waiting(&queue), [0, 0, 1]);
    let batch = queue.take(Duration::ZERO).unwrap();
    queue.settle(&batch);
    assert!(queue.lock().uncommitted.is_empty());
}

#[test]
fn readers_do_what_waits_before_they_go() {
    let queue = queue(100, 100);
    queue.read(None, read()).unwrap();
    queue.close();
    assert_eq!(queue.read(None, read()), Err(Refused::Closed));
    queue.stop_readers();
    assert!(queue.take_read().is_some());
    assert!(queue.take_read().is_none());
}
