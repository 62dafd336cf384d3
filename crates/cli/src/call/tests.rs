use super::*;

#[test]
fn an_input_is_passed_on_as_it_was_written() {
    assert_eq!(read_input(" {\"a\": 1.0} ".to_owned()).unwrap().get(), "{\"a\": 1.0}");
}

#[test]
fn an_input_that_is_no_object_is_bad_usage() {
    for input in ["", "[]", "1", "{", "{} {}", "{a:1}"] {
        assert!(read_input(input.to_owned()).unwrap_err().is::<UsageError>(), "{input}");
    }
}
