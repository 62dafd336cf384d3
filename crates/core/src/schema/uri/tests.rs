use super::*;

#[test]
fn references_are_resolved_against_their_base() {
    for (base, reference, expected) in [
        ("", "a.json", "a.json"),
        ("http://a/b/c/d?q", "g", "http://a/b/c/g"),
        ("http://a/b/c/d?q", "./g", "http://a/b/c/g"),
        ("http://a/b/c/d?q", "g/", "http://a/b/c/g/"),
        ("http://a/b/c/d?q", "/g", "http://a/g"),
        ("http://a/b/c/d?q", "//g", "http://g"),
        ("http://a/b/c/d?q", "?y", "http://a/b/c/d?y"),
        ("http://a/b/c/d?q", "g?y", "http://a/b/c/g?y"),
        ("http://a/b/c/d?q", "", "http://a/b/c/d?q"),
        ("http://a/b/c/d?q", "..", "http://a/b/"),
        ("http://a/b/c/d?q", "../../g", "http://a/g"),
        ("http://a/b/c/d?q", "../../../g", "http://a/g"),
        ("http://a", "g", "http://a/g"),
        ("http://a/b", "urn:x:y", "urn:x:y"),
        ("urn:x:y", "", "urn:x:y"),
    ] {
        assert_eq!(resolve(base, reference), expected, "{base} {reference}");
    }
}

#[test]
fn fragments_are_decoded() {
    assert_eq!(decode("/%24defs/a%25b").as_deref(), Some("/$defs/a%b"));
    assert_eq!((decode("%2"), decode("%zz"), decode("%ff")), (None, None, None));
}
