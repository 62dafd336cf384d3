use super::*;

#[test]
fn a_time_after_the_year_9999_is_the_last_of_that_year() {
    let session = serde_json::json!({
        "id": "ses_1", "slug": "ses_1", "projectID": "global", "directory": "", "title": "One", "version": "1",
        "time": { "created": 1, "updated": u64::MAX },
    });
    let table = table(vec![serde_json::from_value(session).unwrap()]);
    assert!(table.text().contains("9999-12-31T23:59:59Z"), "{}", table.text());
}
