use super::*;

fn number(text: &str) -> Number {
    serde_json::from_str(text).unwrap()
}

#[test]
fn numbers_are_compared_exactly() {
    for (one, other, expected) in [
        ("1", "1.0", Ordering::Equal),
        ("-0.0", "0", Ordering::Equal),
        ("9007199254740993", "9007199254740992.0", Ordering::Greater),
        ("18446744073709551615", "18446744073709551616.0", Ordering::Less),
        ("-1", "-1.5", Ordering::Greater),
        ("1", "1.5", Ordering::Less),
        ("1e300", "5", Ordering::Greater),
        ("-1e300", "5", Ordering::Less),
        ("0.1", "0.2", Ordering::Less),
    ] {
        assert_eq!(compare(&number(one), &number(other)), expected, "{one} {other}");
        assert_eq!(compare(&number(other), &number(one)), expected.reverse(), "{other} {one}");
    }
}

#[test]
fn multiples_are_those_of_decimal_numbers() {
    for (multiple, of, expected) in [
        ("10", "2", true),
        ("7", "2", false),
        ("4.5", "1.5", true),
        ("0.0075", "0.0001", true),
        ("0.00751", "0.0001", false),
        ("1.1", "0.1", true),
        ("-9.99", "0.01", true),
        ("0", "3.7", true),
        ("1e308", "0.123456789", false),
        ("1e300", "1e-300", true),
        ("1e-300", "1e300", false),
        ("18446744073709551615", "0.0000001", true),
        ("18446744073709551615", "18446744073709551614", false),
        ("12391239123", "1e-8", true),
    ] {
        assert_eq!(Divisor::of(&number(of)).unwrap().divides(&number(multiple)), expected, "{multiple} of {of}");
    }
    assert!(["0", "0.0", "-1", "-0.5"].into_iter().all(|bad| Divisor::of(&number(bad)).is_none()));
}
