use proptest::prelude::*;
use serde_json::Value;

use super::mend;

#[test]
fn halves_are_replaced_and_the_rest_is_left_alone() {
    let cases = [
        (r#""\ud83c""#, r#""\ufffd""#),
        (r#""a\uDF89b\uD83C""#, r#""a\ufffdb\ufffd""#),
        (r#"{"\ud83c":["\ud83c\ud83c\udf89"]}"#, r#"{"\ufffd":["\ufffd\ud83c\udf89"]}"#),
        (r#""\ud83c\n\udf89""#, r#""\ufffd\n\ufffd""#),
        (r#""\ud83c\u0041""#, r#""\ufffd\u0041""#),
    ];
    for (given, expected) in cases {
        assert_eq!(mend(given), expected);
    }
    for whole in [r#""\ud83c\udf89 \\ud83c \\\\udf89 é🎉""#, r#"{"a":1}"#, "", "\\", r"\ud83", r"\u+123", "\\é", r"\u\"]
    {
        assert!(matches!(mend(whole), std::borrow::Cow::Borrowed(same) if same == whole), "{whole}");
    }
}

proptest! {
    /// Whatever is in the strings of a document, it can be read, and it says the same where it could be read before.
    #[test]
    fn what_is_mended_can_be_read(pieces in prop::collection::vec(prop_oneof![
        Just(r"\ud83c".to_owned()), Just(r"\uDF89".to_owned()), Just(r"\\".to_owned()), Just(r"\u00e9".to_owned()),
        Just(r#"\""#.to_owned()), "[a-z🎉u0-9]{0,4}",
    ], 0..12)) {
        let json = format!("[\"{}\"]", pieces.concat());
        let mended: Value = serde_json::from_str(&mend(&json)).unwrap();
        if let Ok(before) = serde_json::from_str::<Value>(&json) {
            prop_assert_eq!(mended, before);
        }
    }
}
