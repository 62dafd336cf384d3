use super::*;

#[tokio::test(start_paused = true)]
async fn the_hundred_and_first_call_of_a_minute_is_refused_and_says_when_to_come_back() {
    let rate = Rate::per_minute(100);
    let (one, other) = (ClientId::parse("one").unwrap(), ClientId::parse("other").unwrap());
    for _ in 0..100 {
        rate.check(&one).unwrap();
    }
    let wait = rate.check(&one).unwrap_err();
    assert!(wait > Duration::ZERO && wait <= Duration::from_millis(600), "{wait:?}");
    rate.check(&other).unwrap();
    tokio::time::advance(wait).await;
    rate.check(&one).unwrap();
    rate.check(&one).unwrap_err();
}

#[tokio::test]
async fn zero_is_no_limit() {
    let rate = Rate::per_minute(0);
    let client = ClientId::parse("one").unwrap();
    for _ in 0..10_000 {
        rate.check(&client).unwrap();
    }
}
