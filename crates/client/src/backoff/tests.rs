use super::*;

#[test]
fn delays_double_up_to_the_longest_and_start_over() {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    let delays: Vec<u64> = (0..7).map(|_| backoff.next(1.0).as_secs()).collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
    backoff.reset();
    assert_eq!(backoff.next(1.0), Duration::from_secs(1));
}

#[test]
fn chance_takes_at_most_half_of_a_delay() {
    let mut backoff = Backoff::new(Duration::from_secs(4), Duration::from_secs(4));
    assert_eq!(backoff.next(0.0), Duration::from_secs(2));
    assert_eq!(backoff.next(0.5), Duration::from_secs(3));
    assert_eq!(backoff.next(9.0), Duration::from_secs(4));
}
