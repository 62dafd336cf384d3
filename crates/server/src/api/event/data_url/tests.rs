use serde_json::Value;

use super::*;

fn changed(json: &str) -> String {
    without_data_urls(json.to_owned(), "/link")
}

#[test]
fn data_urls_are_replaced_wherever_they_are() {
    let cases = [
        (r#"{"image":"data:image/png;base64,AAAA+/="}"#, r#"{"image":"/link"}"#),
        (r#"["DATA:,x","a data:text/plain,b c"]"#, r#"["/link","a /link c"]"#),
        (r#"{"text":"![x](data:image/png;base64,AA==) and more"}"#, r#"{"text":"![x](/link) and more"}"#),
        (r#"{"raw":"{\"url\":\"data:image/png;base64,AAAA\"}"}"#, r#"{"raw":"{\"url\":\"/link\"}"}"#),
        (r#"{"raw":"{\"url\":\"data:image/png;base64,AAAA"}"#, r#"{"raw":"{\"url\":\"/link"}"#),
        (r#"{"hidden":"\u0064ata:,x","more":"d\u0061ta\u003a,y"}"#, r#"{"hidden":"/link","more":"/link"}"#),
        (
            r#"{"hidden":"data:image/png\u003bbase64\u002cAA\u003d, \\u0064ata:,x"}"#,
            r#"{"hidden":"/link \\u0064ata:,x"}"#,
        ),
        (r#"{"text":"line\ndata:,x"}"#, r#"{"text":"line\n/link"}"#),
    ];
    for (json, expected) in cases {
        assert_eq!(changed(json), expected);
    }
}

#[test]
fn what_is_none_stays_as_it_is() {
    for json in [
        r#"{"text":"the data: field, and more"}"#,
        r#"{"metadata:x":"metadata:a,b","data":1}"#,
        r#"{"text":"data:image/png"}"#,
        r#"{"text":"data:"}"#,
        r#"{ "b": 1.0,  "a": "text \u00e9 \u2028" }"#,
        "",
    ] {
        assert_eq!(changed(json), json);
    }
}

proptest::proptest! {
    #[test]
    fn json_stays_json_and_nothing_but_data_urls_changes(text in "([ a-z\"\\\\]|data:|image/png|;base64|,|é){0,40}") {
        let json = serde_json::json!({ "text": text }).to_string();
        let changed = changed(&json);
        let value: Value = serde_json::from_str(&changed).unwrap();
        proptest::prop_assert!(find(&changed, 0).is_none(), "{changed}");
        if find(&json, 0).is_none() {
            proptest::prop_assert_eq!(value, serde_json::from_str::<Value>(&json).unwrap());
        }
    }
}
