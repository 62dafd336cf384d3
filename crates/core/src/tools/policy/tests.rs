use proptest::prelude::*;

use super::*;

fn policy(client_tools: Permission, tools: &[(&str, Permission)]) -> Policy {
    let tools = tools.iter().map(|(pattern, permission)| (ToolPattern::parse(pattern).unwrap(), *permission));
    Policy { client_tools, tools: tools.collect() }
}

fn switches(keys: &[(&str, bool)]) -> BTreeMap<String, bool> {
    keys.iter().map(|(key, on)| ((*key).to_owned(), *on)).collect()
}

/// A client's tool.
fn of<'a>(client: &'a str, id: &'a str) -> Named<'a> {
    Named { id, name: &id["client_".len() + client.len() + 1..], client: Some(client) }
}

/// A tool of no client.
fn plain(id: &str) -> Named<'_> {
    Named { id, name: id, client: None }
}

#[test]
fn no_star_crosses_the_boundary_between_client_and_tool() {
    let laptop = |tool| of("laptop", tool);
    let guest = |tool| of("laptop_guest", tool);
    for (pattern, tool, expected) in [
        ("client_laptop_*", laptop("client_laptop_read"), true),
        ("client_laptop_*", laptop("client_laptop_guest_x"), true),
        ("client_laptop_*", guest("client_laptop_guest_x"), false),
        // It is not known where the client's name ends: both ways to read it count.
        ("client_laptop_*_x", guest("client_laptop_guest_x"), true),
        ("client_laptop_*_x", laptop("client_laptop_guest_x"), true),
        ("client_laptop_guest_*", guest("client_laptop_guest_x"), true),
        ("client_laptop_guest_*", laptop("client_laptop_guest_x"), true),
        ("client_lap*_read", laptop("client_laptop_read"), true),
        ("client_lap*_read", of("lap", "client_lap_top_read"), false),
        ("client_*_read_*", laptop("client_laptop_read_mail"), true),
        ("client_*_read_*", of("a_read", "client_a_read_delete"), false),
        ("client_*_x", guest("client_laptop_guest_x"), true),
        ("client_*_*", guest("client_laptop_guest_x"), true),
        // Without both parts it covers the whole id.
        ("client_laptop*", guest("client_laptop_guest_x"), true),
        ("client_*", guest("client_laptop_guest_x"), true),
        ("*_guest_x", guest("client_laptop_guest_x"), true),
        ("*", guest("client_laptop_guest_x"), true),
        // A whole id is a whole id.
        ("client_laptop_guest_x", guest("client_laptop_guest_x"), true),
        ("client_laptop_guest_x", laptop("client_laptop_guest_x"), true),
        // A tool of no client may be called as it likes.
        ("client_a_*", plain("client_a_b_c"), true),
    ] {
        let decided = policy(Permission::Allow, &[(pattern, Permission::Deny)]).decide(tool);
        assert_eq!(decided == Permission::Deny, expected, "{pattern} {tool:?}");
        assert_eq!(switched(&switches(&[(pattern, false)]), tool) == Some(false), expected, "{pattern} {tool:?}");
    }
}

#[test]
fn without_patterns_the_default_decides_and_the_default_is_to_allow() {
    assert_eq!(Policy::default().decide(of("a", "client_a_b")), Permission::Allow);
    for permission in [Permission::Allow, Permission::Ask, Permission::Deny] {
        assert_eq!(policy(permission, &[]).decide(of("a", "client_a_b")), permission);
        assert_eq!(policy(permission, &[("client_x_*", Permission::Allow)]).decide(of("a", "client_a_b")), permission);
    }
}

#[test]
fn the_most_specific_pattern_decides_whatever_the_order() {
    let mut policy = policy(
        Permission::Ask,
        &[
            ("*", Permission::Deny),
            ("client_*_read_*", Permission::Allow),
            ("client_laptop_*", Permission::Ask),
            ("client_laptop_read_*", Permission::Deny),
            ("client_laptop_read_mail", Permission::Allow),
            ("client_*laptop_read_mail", Permission::Deny),
        ],
    );
    for _ in 0..policy.tools.len() {
        policy.tools.rotate_left(1);
        // No pattern, however long, comes before the whole id.
        assert_eq!(policy.decide(of("laptop", "client_laptop_read_mail")), Permission::Allow);
        assert_eq!(policy.decide(of("laptop", "client_laptop_read_file")), Permission::Deny);
        assert_eq!(policy.decide(of("laptop", "client_laptop_write_file")), Permission::Ask);
        assert_eq!(policy.decide(of("phone", "client_phone_read_file")), Permission::Allow);
        assert_eq!(policy.decide(of("phone", "client_phone_write_file")), Permission::Deny);
    }
}

#[test]
fn of_as_many_characters_the_pattern_with_fewer_stars_decides() {
    let rules = [("a*b", Permission::Allow), ("*a*b", Permission::Deny)];
    assert_eq!(policy(Permission::Ask, &rules).decide(plain("axb")), Permission::Allow);
}

#[test]
fn of_equally_specific_patterns_the_strictest_decides() {
    let [allow, ask, deny] = [Permission::Allow, Permission::Ask, Permission::Deny];
    for (one, other, expected) in [(allow, ask, ask), (ask, deny, deny), (deny, allow, deny)] {
        assert_eq!(policy(allow, &[("ab*", one), ("*yz", other)]).decide(plain("abyz")), expected);
        assert_eq!(policy(allow, &[("ab*", other), ("*yz", one)]).decide(plain("abyz")), expected);
        assert_eq!(policy(allow, &[("abyz", other), ("abyz", one)]).decide(plain("abyz")), expected);
    }
}

#[test]
fn nothing_but_the_star_is_special() {
    for (pattern, fitting, others) in [
        ("*", &["", "a", "client_a_b"][..], &[][..]),
        ("a.c", &["a.c"], &["abc", "A.C", "a.c "]),
        ("a*", &["a", "ab", "a*"], &["ba", ""]),
        ("*a", &["a", "ba", "aa"], &["ab", ""]),
        ("ab*ba", &["abba", "abxba"], &["aba", "ab", "abbax"]),
        ("*a*a*", &["aa", "xaxax"], &["a", "xax"]),
        ("a**b", &["ab", "axb"], &["a", "b"]),
        ("?", &["?"], &["a"]),
        ("", &[""], &["a"]),
        ("ä*ü", &["äü", "ä-ü"], &["ä", "aü"]),
    ] {
        for text in fitting {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for text in others {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}

#[test]
fn hostile_patterns_take_no_longer_than_others() {
    // Each of these takes a matcher that tries every place for every star until the end of the world.
    let text = "a".repeat(200_000);
    assert!(!fits(&format!("{}b", "*a".repeat(100_000)), &text));
    assert!(!fits(&format!("{}b*", "a*".repeat(100_000)), &text));
    assert!(!fits(&format!("*{}b*", "a".repeat(100_000)), &text));
    assert!(!fits(&"*aab".repeat(50_000), &text));
    assert!(fits(&"*a".repeat(200_000), &text));
    assert!(!fits(&"*a".repeat(200_001), &text));
    assert!(fits(&"*".repeat(200_000), &text));
}

#[test]
fn patterns_that_can_fit_no_tool_are_refused() {
    for good in ["*", "client_*_read_*", "a.b:c@d-e", &"x".repeat(256)] {
        assert_eq!(ToolPattern::parse(good).unwrap().as_str(), good);
    }
    for bad in ["", "read file", "a/b", "client_?", "ä", &"x".repeat(257)] {
        assert!(ToolPattern::parse(bad).is_err(), "{bad}");
    }
    let error = ToolPattern::parse("read file").unwrap_err().to_string();
    assert_eq!(error, "pattern \"read file\" is not allowed: 1 to 256 of A-Z a-z 0-9 _ . : @ - *");
}

#[test]
fn a_tool_is_on_until_it_is_switched_off() {
    let cases: [(&[(&str, bool)], bool); 11] = [
        (&[], true),
        (&[("other", false), ("client_b_*", false)], true),
        (&[("*", false)], false),
        (&[("client_a_*", false)], false),
        (&[("mail", false)], false),
        (&[("client_a_mail", false)], false),
        (&[("*", false), ("client_a_*", true)], true),
        (&[("client_a_ma*", false), ("mail", true)], true),
        (&[("mail", true), ("client_a_mail", false)], false),
        (&[("mail", false), ("client_a_mail", true)], true),
        // A pattern is over the full id; of equally specific ones off counts.
        (&[("ma*", false), ("client_*", true), ("*_a_mail", false)], false),
    ];
    for (keys, expected) in cases {
        assert_eq!(switched(&switches(keys), of("a", "client_a_mail")).unwrap_or(true), expected, "{keys:?}");
    }
    assert_eq!(switched(&switches(&[("mai*", false)]), of("a", "client_a_mail")), None);
}

/// Matching as one would define it.
fn fits_by_definition(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|taken| fits_by_definition(rest, &text[taken..])),
        Some((first, rest)) => text.first() == Some(first) && fits_by_definition(rest, &text[1..]),
    }
}

/// Whether the one pattern is to be preferred, as the documentation of the module says it.
fn is_more_specific(one: &str, other: &str) -> bool {
    let count = |pattern: &str, star: bool| pattern.chars().filter(|c| (*c == '*') == star).count();
    match (one.contains('*'), other.contains('*')) {
        (false, true) => true,
        (true, false) => false,
        _ if count(one, false) != count(other, false) => count(one, false) > count(other, false),
        _ => count(one, true) < count(other, true),
    }
}

fn a_permission() -> impl Strategy<Value = Permission> {
    prop_oneof![Just(Permission::Allow), Just(Permission::Ask), Just(Permission::Deny)]
}

proptest! {
    #[test]
    fn matching_is_what_its_definition_says(pattern in "[ab*]{0,9}", text in "[ab]{0,9}") {
        let [one, other]: [Vec<char>; 2] = [&pattern, &text].map(|text| text.chars().collect());
        prop_assert_eq!(fits(&pattern, &text), fits_by_definition(&one, &other));
    }

    #[test]
    fn the_decision_is_that_of_a_pattern_that_none_is_preferred_to(
        default in a_permission(),
        rules in prop::collection::vec(("[ab*]{1,4}", a_permission()), 0..8),
        id in "[ab]{1,4}",
    ) {
        let rules: Vec<(&str, Permission)> = rules.iter().map(|(pattern, says)| (pattern.as_str(), *says)).collect();
        let decision = policy(default, &rules).decide(plain(&id));
        let fitting: Vec<_> = rules.iter().filter(|(pattern, _)| fits(pattern, &id)).collect();
        let best = fitting.iter().filter(|(one, _)| !fitting.iter().any(|(other, _)| is_more_specific(other, one)));
        let strictest = best.map(|(_, says)| *says).max_by_key(|says| *says as u8);
        prop_assert_eq!(decision, strictest.unwrap_or(default));
    }

    #[test]
    fn switching_off_is_decided_as_denying_is(
        keys in prop::collection::btree_map("[ab*]{1,4}", any::<bool>(), 0..8),
        id in "[ab]{1,4}",
    ) {
        let denied = |on: bool| if on { Permission::Allow } else { Permission::Deny };
        let rules: Vec<(&str, Permission)> = keys.iter().map(|(key, on)| (key.as_str(), denied(*on))).collect();
        let allowed = policy(Permission::Allow, &rules).decide(plain(&id)) == Permission::Allow;
        prop_assert_eq!(switched(&keys, Named { name: "no such key", ..plain(&id) }).unwrap_or(true), allowed);
    }
}
