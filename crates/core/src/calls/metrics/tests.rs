use super::*;

#[test]
fn times_are_counted_in_the_narrowest_bucket_that_holds_them() {
    let mut one = Times::default();
    for micros in [0, 100, 101, 400, 2_000_000, 500_000_000] {
        one.count(Duration::from_micros(micros));
    }
    let mut both = Times::default();
    both.add(&one);
    both.add(&one);
    let mut metrics = Metrics::default();
    metrics.phases[2] = both;
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"call_phase_seconds_sum{phase="execute"} 1004.001202"#,
        r#"call_phase_seconds_count{phase="execute"} 12"#,
        r#"call_phase_seconds_bucket{le="0.0001",phase="execute"} 4"#,
        r#"call_phase_seconds_bucket{le="0.0004",phase="execute"} 8"#,
        r#"call_phase_seconds_bucket{le="0.4096",phase="execute"} 8"#,
        r#"call_phase_seconds_bucket{le="6.5536",phase="execute"} 10"#,
        r#"call_phase_seconds_bucket{le="419.4304",phase="execute"} 10"#,
        r#"call_phase_seconds_bucket{le="+Inf",phase="execute"} 12"#,
        r#"call_phase_seconds_count{phase="queue"} 0"#,
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in {text}");
    }
}
