use handback_testkit::keys::seconds_until;
use handback_testkit::server::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::timeout;

use super::Example;

#[tokio::test]
async fn the_time_is_told_in_this_zone_or_another() {
    let example = Example::start("clock", "local_time", &[]).await;
    let utc = example.output(&json!({ "time_zone": "UTC" })).await;
    let (told, zone) = utc.split_once(", ").unwrap().1.split_at("2026-11-15 12:00:00".len());
    assert_eq!(zone, " +00:00 (UTC)");
    let off_by = seconds_until(&format!("{}Z", told.replace(' ', "T")));
    assert!(off_by.abs() < PATIENCE.as_secs_f64(), "{utc}");
    let kolkata = example.output(&json!({ "time_zone": "Asia/Kolkata" })).await;
    assert!(kolkata.ends_with(" +05:30 (Asia/Kolkata)"), "{kolkata}");
    let own_zone = example.output(&json!({})).await;
    assert_eq!(own_zone.split(", ").count(), 2, "{own_zone}");
    let error = example.error(&json!({ "time_zone": "Mars/Olympus" })).await;
    assert!(error.contains("Mars/Olympus"), "{error}");
}

#[tokio::test]
async fn the_tool_is_gone_at_once_when_the_example_is_stopped() {
    let mut example = Example::start("clock", "local_time", &[]).await;
    let pid = i32::try_from(example.process.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
    let status = timeout(PATIENCE, example.process.wait()).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
    example.server.get("/client-tools/clients").await.must_be(200, &json!([]));
}
