use super::*;

#[test]
fn a_dash_stands_for_standard_input() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(compose(&words(&["-"]), "a\nb"), "a\nb");
    assert_eq!(compose(&words(&["Say", "this:", "-"]), "a\nb"), "Say this:\na\nb");
    assert_eq!(compose(&words(&["one", "-", "two"]), "a"), "one\na\ntwo");
}
