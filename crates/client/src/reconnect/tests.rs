use super::*;

fn lost() -> Error {
    Error::Interrupted { url: "http://127.0.0.1:1".to_owned(), reason: "lost".to_owned() }
}

#[test]
fn delays_start_over_after_a_connection_that_was_open_however_briefly() {
    let mut reconnect = Reconnect::new(Backoff::new(Duration::from_secs(8), Duration::from_secs(64)), Some(3));
    let mut delays = |count: usize| -> Vec<_> { (0..count).map(|_| reconnect.delay_after(&lost()).unwrap()).collect() };
    let is_about = |delay: Duration, full: u64| (full / 2..=full).contains(&delay.as_secs());
    assert!(delays(3).into_iter().zip([8, 16, 32]).all(|(delay, full)| is_about(delay, full)));
    assert!(reconnect.delay_after(&lost()).is_none(), "too many have failed");
    for _ in 0..10 {
        reconnect.connected();
        // A server that takes a connection and closes it at once is not asked without a pause.
        assert!(is_about(reconnect.delay_after(&lost()).unwrap(), 8));
    }
}
