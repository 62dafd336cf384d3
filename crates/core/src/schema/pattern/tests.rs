use super::super::bounds::BOUNDS;
use super::*;

fn compile(source: &str) -> Result<Pattern, String> {
    Pattern::compile(source, &BOUNDS)
}

/// Whether a pattern matches, and in how many steps.
fn run(source: &str, text: &str) -> (Result<bool, Stop>, u64) {
    let mut steps = Steps::new(BOUNDS.steps);
    let pattern = compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    let matched = pattern.matches(text, &mut Machine::default(), &mut steps);
    (matched, BOUNDS.steps - steps.left())
}

#[track_caller]
fn matches(source: &str, yes: &[&str], no: &[&str]) {
    for (texts, expected) in [(yes, true), (no, false)] {
        for text in texts {
            assert_eq!(run(source, text).0, Ok(expected), "{source} {text:?}");
        }
    }
}

#[test]
fn patterns_mean_what_ecma_262_says() {
    matches("", &["", "a"], &[]);
    matches("b", &["abc"], &["ac"]);
    matches("^abc$", &["abc"], &["abcd", "xabc", "abc\n"]);
    matches("a|^b|c$", &["xa", "bx", "xc"], &["xb", "cx"]);
    matches("^(?:a|b){2,3}$", &["ab", "bab"], &["a", "abab"]);
    matches("^a{2}b{0}c{1,}$", &["aac", "aaccc"], &["aabc", "ac"]);
    matches("^[a-c]{2,3}x$", &["abx", "abcx"], &["ax", "abcax"]);
    matches("^[^a-c]$", &["d", "é"], &["a", "dd"]);
    matches("^[]$", &[], &["", "a"]);
    matches("^[^]$", &["\n", "a"], &[""]);
    matches(r"^[\w-.]+$", &["a-.b"], &["a+"]);
    matches(r"^[-a\]]+$", &["-a]"], &["b"]);
    matches(r"^\d\D\w\W\s\S$", &["1aa- x"], &["٣aa- x", "1aé- "]);
    matches(r"^\s+$", &["\u{feff}\u{a0}\u{2003}\t\n"], &["\u{200b}"]);
    matches(r"^.$", &["a", "😀"], &["\n", "\u{2028}", "\r"]);
    matches(r"^\u0041\x42\u{43}\cA\0\/\-\@$", &["ABC\u{1}\0/-@"], &["abc\u{1}\0/-@"]);
    matches(r"^\ud83d\ude00\u{1F600}$", &["😀😀"], &["😀"]);
    matches(r"^\p{L}+\P{L}\p{Script=Greek}\p{Zl}$", &["aéß1α\u{2028}"], &["a11α\u{2028}"]);
    matches(r"\bfoo\b", &["a foo b", "foo"], &["afoo", "foo_"]);
    matches(r"a\Bb", &["ab"], &["a b"]);
    matches(r"^a{,2}{$", &["a{,2}{"], &["aa"]);
    matches(r"^(a*)*$", &["", "aaa"], &["b"]);
    matches(r"^(a*?b??)+?$", &["", "aab"], &["c"]);
    matches(r"[\b]", &["\u{8}"], &["b"]);
}

#[test]
fn look_around_and_back_references_are_followed() {
    matches(r"^(?=.*\d)(?=.*[a-z]).{3,}$", &["a1b", "1aaaa"], &["abc", "a1"]);
    matches(r"^(?!.*\.\.)[a-z.]+$", &["a.b"], &["a..b"]);
    matches(r"(?<=\$)\d+(?!\d|x)", &["a$12", "$1 2"], &["12", "$1x"]);
    matches(r"(?<!a)b", &["cb", "b"], &["ab"]);
    matches(r"(?<=^(?:ab){2})c", &["ababc"], &["abc", "abababc"]);
    matches(r"^(['x])y\1$", &["'y'", "xyx"], &["'yx"]);
    matches(r"^(?<q>a|b)+-\k<q>$", &["ab-b"], &["ab-a"]);
    matches(r"^(?:(a)|b)*\1$", &["ab", "aa"], &["abc"]);
    matches(r"^(?=(a+))\1b$", &["aab"], &["ab b"]);
    matches(r"^(?:(?=(a))a|b)\1c$", &["aac", "bc"], &["ac"]);
    let email = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
    matches(email, &["ada@example.org", "a.b+c@x-y.example.co"], &[".a@b.co", "a..b@c.de", "a@b", "a@b.c", "a@@b.cc"]);
    // Pydantic's decimal number.
    matches(r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", &["1", "-0.5", "+.5"], &["", "-", ".", "1e5"]);
}

#[test]
fn what_is_no_pattern_is_refused() {
    for bad in [
        "(",
        ")",
        "a)",
        "[",
        "[z-a]",
        "*",
        "a**",
        "{2}",
        "a{2}{3}",
        "a{3,2}",
        "(?i)a",
        "(?P<a>b)",
        "(?>a)",
        "(?",
        "\\",
        r"\1",
        r"(a)\2",
        r"\k<a>",
        r"\k",
        r"\A",
        r"\Z",
        r"\p",
        r"\pL",
        r"\p{Nonsense}",
        r"\p{L",
        r"\u12",
        r"\u{110000}",
        r"\ud800",
        r"\x1",
        r"\c1",
        "(?<a>x)(?<a>y)",
        "(?<>x)",
        "(?<a",
        "^*",
        r"\b+",
        "(?<=a)*",
    ] {
        assert!(compile(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_pattern_is_bounded_in_what_it_becomes() {
    for large in [
        "((a{100}){100}){100}".to_owned(),
        "(((a{1,100}){1,100}){1,100}){1,100}".to_owned(),
        "(?:ab){4294967295}".to_owned(),
        "(?:a|b){99999999999999999999}".to_owned(),
        "x|".repeat(5_000),
        r"\p{L}".repeat(10),
        r"[\p{L}\p{L}\p{L}\p{L}\p{L}\p{L}\p{L}\p{L}]".to_owned(),
        "(".repeat(33) + &")".repeat(33),
        "(".repeat(60_000),
    ] {
        let error = compile(&large).map(|pattern| pattern.size()).unwrap_err();
        assert!(error.contains("too large") || error.contains("nested"), "{error}");
    }
    // What takes no instructions ends all the same, and so does what is repeated without getting on.
    matches("^(?:(?:){4294967295}){4294967295}$", &[""], &["a"]);
    matches("^((a?)*)*((b*)*)*$", &["", "aab"], &["c"]);
    assert!(compile(r"^\p{L}{200}$").unwrap().size() < 1_000);
}

#[test]
fn a_match_takes_steps_in_proportion_to_the_text_or_runs_out_of_them() {
    let long = "a".repeat(20_000) + "!";
    for linear in ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^([a-z]+)*$", "[a-z]+@", "(?:a*)*b", "^(?:a?){9}a{9}$"] {
        let (matched, steps) = run(linear, &long);
        assert_eq!(matched, Ok(false), "{linear}");
        assert!(steps < 20 * long.len() as u64, "{linear}: {steps}");
    }
    let text = "a".repeat(200_000);
    for costly in ["[ab]*a[ab]{900}c", r"^(?:(a+)+)+\1b", "(?=.*b)", "(.*a){25}$ "] {
        assert_eq!(run(costly, &text).0, Err(Stop::Steps), "{costly}");
    }
    let base64 = r"^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$";
    assert_eq!(run(base64, &text[..100_000]).0, Ok(true));
}

#[test]
fn what_a_match_keeps_is_bounded_and_charged() {
    let groups = |count: usize| format!("\\1(?:{}){{0}}", "()".repeat(count));
    assert!(compile(&groups(BOUNDS.pattern + 1)).is_err());
    let (matched, steps) = run(&groups(BOUNDS.pattern), "");
    assert_eq!(matched, Ok(true));
    assert!(steps > 1_000, "{steps}");
}

#[test]
fn braces_that_count_nothing_are_read_once() {
    // Each of them might begin a count; none is looked for to the end.
    let pattern = format!("^{}}}$", "{".repeat(4_000));
    matches(&pattern, &[&pattern[1..pattern.len() - 1]], &["{"]);
    matches("^a{0000000000000000000000000001}$", &["a{0000000000000000000000000001}"], &["a"]);
}
