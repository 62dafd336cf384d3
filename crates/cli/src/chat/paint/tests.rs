use handback_wire::session::CacheTokens;

use super::*;

#[test]
fn what_a_turn_cost_is_said_if_anybody_counted() {
    assert_eq!(usage(Tokens::default()), None);
    let tokens = Tokens { input: 10, output: 2, reasoning: 1, cache: CacheTokens { read: 3, write: 4 } };
    assert_eq!(usage(tokens).as_deref(), Some("17 tokens in, 3 out"));
    let most = u64::MAX;
    let tokens = Tokens { input: most, output: most, reasoning: most, cache: CacheTokens { read: most, write: most } };
    assert_eq!(usage(tokens), Some(format!("{most} tokens in, {most} out")));
}

#[test]
fn times_are_short() {
    let times = [49, 12_345, 59_960, 60_000, 125_000].map(|millis| seconds(Duration::from_millis(millis)));
    assert_eq!(times, ["0.0 s", "12.3 s", "60.0 s", "1 min 0 s", "2 min 5 s"]);
}
