use super::*;

#[test]
fn names_take_what_the_contract_allows_and_nothing_else() {
    for good in ["a", "A-z_0.9:@", &"x".repeat(128)] {
        assert_eq!(ClientId::parse(good).unwrap().as_str(), good);
    }
    for bad in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(129)] {
        assert!(ClientId::parse(bad).is_err(), "{bad:?}");
    }
    assert!(ToolName::parse(&"x".repeat(64)).is_ok());
    assert!(ToolName::parse(&"x".repeat(65)).is_err());
    assert!(SessionId::parse("").is_ok());
    assert!(RequestId::parse("").is_err());
    assert!(RequestId::parse("a\u{7}").is_err());
}

#[test]
fn an_error_names_what_was_found_without_repeating_all_of_it() {
    let error = ClientId::parse(&"é".repeat(500)).unwrap_err().to_string();
    assert!(error.starts_with("clientID \"\\u{e9}"), "{error}");
    assert!(error.ends_with("1 to 128 of A-Z a-z 0-9 _ . : @ -"), "{error}");
    assert!(error.len() < 400);
}

#[test]
fn the_message_of_a_late_result_has_an_id_however_long_that_of_its_call_is() {
    let requests = ["a".to_owned(), "a".repeat(251), "a".repeat(252), "b".repeat(252), "b".repeat(256)];
    let ids = requests.map(|request| MessageId::of_late_result(&RequestId::parse(&request).unwrap()));
    assert!(ids.iter().all(|id| MessageId::parse(id.as_str()).as_ref() == Ok(id)), "{ids:?}");
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
}

#[test]
fn event_ids_round_trip() {
    let id = EventId { epoch: "ab12".into(), number: 7 };
    assert_eq!(EventId::parse(&id.to_string()), Some(id));
    for bad in ["", "7", "ab-", "ab-x", "ab--1"] {
        assert_eq!(EventId::parse(bad).filter(|id| &*id.epoch == "ab"), None, "{bad}");
    }
}
