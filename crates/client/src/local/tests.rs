use super::*;

#[test]
fn the_binary_is_the_one_that_is_named_first() {
    let named = PathBuf::from("mine");
    let variable = |name: &str| Some(OsString::from(name));
    assert_eq!(binary(Some(&named), variable("other")), named);
    assert_eq!(binary(None, variable("other")), Path::new("other"));
    assert_eq!(binary(None, variable("")), Path::new("handback"));
    assert_eq!(binary(None, None), Path::new("handback"));
}
