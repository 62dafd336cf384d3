use super::*;

fn success(output: &str, metadata: Option<&str>) -> Outcome {
    let metadata = metadata.map(|text| RawValue::from_string(text.to_owned()).unwrap());
    Outcome::Success(Success { output: output.to_owned(), metadata, ..Success::default() })
}

#[test]
fn answers_that_are_equal_as_parsed_have_one_hash() {
    let one = success("a", Some(r#"{"a":1,"b":[true,null,"\u0061"],"c":2.50,"d":1e2}"#));
    let same = success("a", Some(r#" {"d":100, "c":2.5,"b":[true,null,"a"], "a":1.0} "#));
    assert_eq!(one.answer_hash(), same.answer_hash());
    assert!(one.answer_hash().is_some());
}

#[test]
fn answers_that_differ_have_different_hashes() {
    let answers = [
        success("a", None),
        success("b", None),
        success("a", Some("{}")),
        success("a", Some(r#"{"a":1}"#)),
        success("a", Some(r#"{"a":"1"}"#)),
        success("a", Some(r#"{"a":[1]}"#)),
        success("a", Some(r#"{"a":9007199254740993}"#)),
        success("a", Some(r#"{"a":9007199254740992}"#)),
        Outcome::Error("a".into()),
        Outcome::Error("b".into()),
        Outcome::Success(Success { title: "a".into(), ..Success::default() }),
    ];
    for (place, one) in answers.iter().enumerate() {
        for other in &answers[place + 1..] {
            assert_ne!(one.answer_hash(), other.answer_hash(), "{one:?} {other:?}");
        }
    }
}

#[test]
fn ends_that_are_no_answer_have_no_hash() {
    for outcome in [
        Outcome::Timeout(Duration::from_secs(1)),
        Outcome::Cancelled(Cancellation::CallerGone),
        Outcome::Denied("no".into()),
        Outcome::Disconnected,
    ] {
        assert_eq!(outcome.answer_hash(), None);
        assert!(outcome.failure().is_some());
    }
}

/// It may be kept: another build, or another machine, must come to the same.
#[test]
fn the_hash_of_an_answer_never_changes() {
    let attachments = Some(vec![Attachment { mime: "image/png".into(), filename: None, url: "data:,x".into() }]);
    let whole = Success { title: "t".into(), output: "é".into(), metadata: None, attachments };
    let answers = [
        success("a", None),
        success("a", Some(r#"{"b":[1,2.5,true,null,"x",-9007199254740993],"a":{}}"#)),
        Outcome::Success(whole),
        Outcome::Error("no".into()),
    ];
    let hashes = answers.map(|answer| answer.answer_hash().unwrap());
    assert_eq!(hashes, [6072546585638685070, 9976858700845991876, 1445294092423153144, 1280213502414152234]);
}
