use prometheus_client::collector::Collector;
use prometheus_client::registry::Registry;

use super::*;

#[derive(Debug)]
struct One(Times);

impl Collector for One {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        histograms(&mut encoder, "time_seconds", "Time", [([("phase", "execute")], &self.0)])
    }
}

#[test]
fn times_are_counted_in_the_narrowest_bucket_that_holds_them() {
    let mut one = Times::default();
    for micros in [0, 100, 101, 400, 2_000_000, 500_000_000] {
        one.count(Duration::from_micros(micros));
    }
    let mut both = Times::default();
    both.add(&one);
    both.add(&one);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(One(both)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"time_seconds_sum{phase="execute"} 1004.001202"#,
        r#"time_seconds_count{phase="execute"} 12"#,
        r#"time_seconds_bucket{le="0.0001",phase="execute"} 4"#,
        r#"time_seconds_bucket{le="0.0004",phase="execute"} 8"#,
        r#"time_seconds_bucket{le="0.4096",phase="execute"} 8"#,
        r#"time_seconds_bucket{le="6.5536",phase="execute"} 10"#,
        r#"time_seconds_bucket{le="419.4304",phase="execute"} 10"#,
        r#"time_seconds_bucket{le="+Inf",phase="execute"} 12"#,
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in {text}");
    }
}

#[test]
fn values_beyond_the_limit_count_as_one() {
    let labels = Labels::default();
    let admitted: Vec<SmolStr> = (0..MOST_VALUES + 2).map(|number| labels.admit(&number.to_string())).collect();
    assert_eq!(admitted[MOST_VALUES - 1], (MOST_VALUES - 1).to_string());
    assert_eq!(admitted[MOST_VALUES..], ["other", "other"]);
    // Values that were admitted before stay.
    assert_eq!(labels.admit("0"), "0");
}
