use super::*;

#[test]
fn delays_double_until_something_new_comes_and_five_tries_are_enough() {
    let backoff = Backoff::new((Duration::from_millis(500), Duration::from_secs(8)));
    let mut resumption = Resumption { cursor: None, reconnect: Reconnect::new(backoff, Some(MAX_TRIES)) };
    let lost = Error::Interrupted { url: String::new(), reason: "cut".to_owned() };
    assert_eq!(resumption.delay_after(&lost), None, "there is nowhere to begin");
    for number in 0..2 {
        assert!(resumption.is_new(Some(format!("r:{number}"))));
        assert!(!resumption.is_new(Some("r:0".to_owned())), "it was there before");
        for full in [500, 1_000, 2_000, 4_000, 8_000] {
            let delay = resumption.delay_after(&lost).map(|delay| delay.as_millis());
            assert!(delay.is_some_and(|delay| (full / 2..=full).contains(&delay)), "{delay:?} of {full}");
        }
        assert_eq!(resumption.delay_after(&lost), None);
    }
}
