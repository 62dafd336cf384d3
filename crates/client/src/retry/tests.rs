use super::*;
use crate::error::Refusal;

#[test]
fn delays_double_up_to_the_longest_and_start_over() {
    let mut backoff = Backoff::new((Duration::from_secs(1), Duration::from_secs(30)));
    let delays: Vec<u64> = (0..7).map(|_| backoff.next(1.0).as_secs()).collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
    backoff.reset();
    assert_eq!(backoff.next(1.0), Duration::from_secs(1));
}

#[test]
fn chance_takes_at_most_half_of_a_delay() {
    let mut backoff = Backoff::new((Duration::from_secs(4), Duration::from_secs(4)));
    assert_eq!(backoff.next(0.0), Duration::from_secs(2));
    assert_eq!(backoff.next(0.5), Duration::from_secs(3));
    assert_eq!(backoff.next(9.0), Duration::from_secs(4));
}

fn lost() -> Error {
    Error::Interrupted { url: "http://127.0.0.1:1".to_owned(), reason: "lost".to_owned() }
}

#[test]
fn delays_start_over_after_a_connection_that_was_open_however_briefly() {
    let mut reconnect = Reconnect::new(Backoff::new((Duration::from_secs(8), Duration::from_secs(64))), Some(3));
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

fn refused(status: u16, retry_after: Option<Duration>) -> Error {
    let message = format!("refused with {status}");
    Error::Refused(Box::new(Refusal { status, code: None, message, body: None, retry_after, is_ours: true }))
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again_for_a_minute() {
    let began = Instant::now();
    let Err(given_up) = with_retries(async || Err::<(), _>(refused(503, None))).await else {
        panic!("it never succeeds")
    };
    assert_eq!(given_up.to_string(), "refused with 503; given up after 60 s");
    assert!((60..=65).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_is_not() {
    let began = Instant::now();
    let Err(refusal) = with_retries(async || Err::<(), _>(refused(404, None))).await else { panic!("it is final") };
    assert_eq!((refusal.status(), began.elapsed()), (Some(404), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_gets_it() {
    let began = Instant::now();
    let mut answers = [Err(refused(429, Some(Duration::from_secs(20)))), Ok(())].into_iter();
    with_retries(|| std::future::ready(answers.next().unwrap())).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn the_last_tries_before_a_deadline_come_closer_together_whatever_the_server_asks_for() {
    for asked in [None, Some(Duration::from_secs(60))] {
        let (deadline, mut backoff) = (Instant::now() + Duration::from_secs(30), Backoff::new(DELAYS));
        while let Some(delay) = backoff.before(deadline, &refused(503, asked)) {
            sleep(delay).await;
        }
        let left = deadline - Instant::now();
        assert!(!left.is_zero() && left < DELAYS.0, "{left:?}");
    }
    let (deadline, fits) = (Instant::now() + Duration::from_secs(30), Duration::from_secs(20));
    assert_eq!(Backoff::new(DELAYS).before(deadline, &refused(503, Some(fits))), Some(fits));
}
