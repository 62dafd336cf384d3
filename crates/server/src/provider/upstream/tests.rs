use super::*;

#[test]
fn waits_double_up_to_the_longest_and_chance_takes_at_most_half() {
    let waits = |chance| (1..=7).map(move |tries| backoff(Duration::from_millis(500), tries, chance).as_millis());
    assert_eq!(waits(1.0).collect::<Vec<_>>(), [500, 1000, 2000, 4000, 8000, 8000, 8000]);
    assert_eq!(waits(0.0).collect::<Vec<_>>(), [250, 500, 1000, 2000, 4000, 4000, 4000]);
}

#[test]
fn retry_after_is_seconds_or_a_date_on_the_providers_clock() {
    let date = "Sun, 15 Nov 2026 12:00:00 GMT";
    let cases = [
        ("7", date, Some(Duration::from_secs(7))),
        (" 0.5 ", "", Some(Duration::from_millis(500))),
        ("-1", date, None),
        ("inf", date, None),
        ("soon", date, None),
        ("Sun, 15 Nov 2026 12:00:09 GMT", date, Some(Duration::from_secs(9))),
        ("Sun, 15 Nov 2026 11:00:00 GMT", date, Some(Duration::ZERO)),
        ("Sun, 15 Nov 2026 12:00:09 GMT", "", None),
    ];
    for (value, date, expected) in cases {
        let value = HeaderValue::from_str(value).unwrap();
        let headers = HeaderMap::from_iter([(RETRY_AFTER, value), (DATE, HeaderValue::from_str(date).unwrap())]);
        assert_eq!(retry_after(&headers), expected);
    }
    assert_eq!(retry_after(&HeaderMap::new()), None);
}

#[test]
fn the_memory_of_models_without_images_is_bounded() {
    let settings = Settings::new("mine", "http://127.0.0.1:1");
    let url = base_url(&settings).unwrap();
    let upstream = Upstream::new(settings, url, (ACCEPT, "")).unwrap();
    for number in 0..=MOST_REMEMBERED {
        upstream.remember_no_images(&number.to_string());
    }
    assert_eq!(upstream.remembered().len(), MOST_REMEMBERED);
    assert!(upstream.takes_images("0"));
    assert!(!upstream.takes_images("1"));
}

#[tokio::test(start_paused = true)]
async fn a_model_may_be_shown_images_again_after_a_while() {
    let settings = Settings::new("mine", "http://127.0.0.1:1");
    let url = base_url(&settings).unwrap();
    let upstream = Upstream::new(settings, url, (ACCEPT, "")).unwrap();
    upstream.remember_no_images("m");
    tokio::time::advance(REMEMBERED_FOR - Duration::from_secs(1)).await;
    assert!(!upstream.takes_images("m"));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(upstream.takes_images("m"));
}

#[test]
fn only_this_machine_is_reached_without_a_proxy() {
    let cases = [
        ("http://localhost:1", true),
        ("http://127.0.0.2/v1", true),
        ("http://[::1]:1", true),
        ("http://127.example.com", false),
        ("https://api.openai.com/v1", false),
    ];
    for (url, expected) in cases {
        assert_eq!(handback_tls::is_loopback(Url::parse(url).unwrap().host_str().unwrap()), expected, "{url}");
    }
}
