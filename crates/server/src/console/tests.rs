use super::*;

fn asking(name: HeaderName, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
}

#[test]
fn encodings_are_taken_as_they_are_accepted() {
    let chosen = |value| best_copy(INDEX, &asking(header::ACCEPT_ENCODING, value)).and_then(|(_, encoding)| encoding);
    assert_eq!(chosen("gzip, deflate, br, zstd"), Some("br"));
    assert_eq!(chosen("GZIP"), Some("gzip"));
    assert_eq!(chosen("br;q=0, gzip;q=0.5"), Some("gzip"));
    assert_eq!(chosen("br;q=0.000"), None);
    assert_eq!(chosen("br; q=1"), Some("br"));
    assert_eq!(chosen("brotli, x-gzip, identity"), None);
    assert_eq!(chosen("br;level=11"), None);
    assert_eq!(chosen(""), None);
}

#[test]
fn a_known_tag_is_found_in_a_list() {
    let names = |list| names_tag(&HeaderValue::from_static(list), "\"abc\"");
    assert_eq!(["\"abc\"", "\"x\", \"abc\"", "W/\"abc\"", "*"].map(names), [true; 4]);
    assert_eq!(["", "abc", "\"abcd\"", "\"x\""].map(names), [false; 4]);
}

#[test]
fn only_the_files_have_paths() {
    assert!(is_at("/") && is_at("/favicon.svg"));
    for other in
        ["", "/index.html", "/index.html.br", "/favicon.svg.gz", "/assets", "/assets/", "/assets/../index.html"]
    {
        assert!(!is_at(other), "{other}");
    }
}

/// What has no compressed copy, or one that is not the same, would be seen only by some.
#[test]
fn every_file_has_both_compressed_copies() {
    for name in Files::iter().filter(|name| !is_copy(name)) {
        for (_, ending) in ENCODINGS {
            assert!(Files::get(&format!("{name}{ending}")).is_some(), "{name}{ending}");
        }
    }
}
