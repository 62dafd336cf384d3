use super::{MEDIA_TYPE, is_wanted};

#[test]
fn the_front_end_says_what_it_would_rather_have() {
    let cases = [
        (MEDIA_TYPE.to_owned(), true),
        (format!("{MEDIA_TYPE}, text/event-stream"), true),
        (format!("text/event-stream;q=0.5 , {}; q=0.9", MEDIA_TYPE.to_uppercase()), true),
        (format!("{MEDIA_TYPE};q=0.2, text/event-stream;q=0.5"), false),
        (format!("{MEDIA_TYPE};q=0"), false),
        (format!("{MEDIA_TYPE};q=never"), false),
        (format!("{MEDIA_TYPE}2"), false),
        ("text/event-stream".to_owned(), false),
        ("*/*".to_owned(), false),
        (String::new(), false),
    ];
    for (accept, wanted) in cases {
        assert_eq!(is_wanted(&accept), wanted, "{accept}");
    }
}
