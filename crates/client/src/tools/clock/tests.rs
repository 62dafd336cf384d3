use super::*;

const DATE: &str = "Sun, 15 Nov 2026 12:00:00 GMT";

#[tokio::test(start_paused = true)]
async fn a_deadline_is_counted_on_the_servers_clock() {
    let clock = ServerClock::new(Some(DATE));
    tokio::time::advance(Duration::from_secs(10)).await;
    let deadline = clock.deadline("2026-11-15T12:00:30.500Z");
    assert_eq!(deadline, Some(Instant::now() + Duration::from_millis(20_500)));
    assert_eq!(clock.deadline("2026-11-15T12:00:10Z"), None);
    assert_eq!(clock.deadline("2026-11-15T11:00:00Z"), None);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_read_or_placed_is_a_day_away() {
    let far = Some(Instant::now() + LONGEST_CALL);
    assert_eq!(ServerClock::new(Some(DATE)).deadline(""), far);
    assert_eq!(ServerClock::new(Some(DATE)).deadline("2199-01-01T00:00:00Z"), far);
    assert_eq!(ServerClock::new(None).deadline("2026-11-15T12:00:00Z"), far);
}
