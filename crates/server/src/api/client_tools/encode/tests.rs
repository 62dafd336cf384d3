use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::id::{CallId, ClientId, EventId, MessageId, RequestId, SessionId, ToolName};
use handback_core::schema::Schema;
use handback_core::store::{Origin, ToolSpec};
use serde_json::value::to_raw_value;

use super::*;

fn head() -> CallHead {
    let (client, name) = (ClientId::parse("tab").unwrap(), ToolName::parse("t").unwrap());
    let spec = ToolSpec {
        name,
        description: String::new(),
        schema: Arc::new(Schema::any_object()),
        timeout: None,
        effect: Effect::Read,
        version: None,
    };
    CallHead {
        origin: Origin::Application,
        connection: None,
        request: RequestId::parse("re\"quest").unwrap(),
        session: SessionId::parse("s").unwrap(),
        message: MessageId::parse("m").unwrap(),
        call: CallId::parse("c").unwrap(),
        tool: Arc::new(Tool::of_client(client, spec)),
        input: to_raw_value(&serde_json::json!({"a": [1, "\n"]})).unwrap(),
        timeout: Duration::from_secs(1),
        created: SystemTime::UNIX_EPOCH,
        deadline: SystemTime::UNIX_EPOCH + Duration::from_millis(1_500),
        expires: tokio::time::Instant::now(),
    }
}

#[test]
fn a_request_is_written_as_serde_writes_it() {
    let head = head();
    let mut written = Vec::new();
    write_request(&mut written, &head, 2);
    let written = String::from_utf8(written).unwrap();
    assert_eq!(written, json(&request(&head, 2)));
    let expected = concat!(
        r#"{"type":"client-tool-request","requestID":"re\"quest","sessionID":"s","messageID":"m","callID":"c","#,
        r#""tool":"client_tab_t","input":{"a":[1,"\n"]},"deadline":"1970-01-01T00:00:01.500Z","effect":"read","attempt":2}"#
    );
    assert_eq!(written, expected);
}

#[test]
fn a_frame_is_one_line_of_data_between_its_event_and_its_id() {
    let id = EventId { epoch: "e".into(), number: 7 };
    let delivery = Delivery::Cancel { request: RequestId::parse("r").unwrap(), reason: "a\nb".into(), id };
    let Next::Frame(frame) = sse(delivery) else { panic!("a cancel is a frame") };
    assert_eq!(frame, "event: tool-cancel\ndata: {\"requestID\":\"r\",\"reason\":\"a\\nb\"}\nid: e-7\n\n");
}

#[test]
fn a_time_after_the_year_9999_is_the_last_of_that_year() {
    let latest = "9999-12-31T23:59:59.999Z";
    let deadline = SystemTime::from(Time(u64::MAX));
    assert_eq!([time(SystemTime::from(Time(253_402_300_799_999))), time(deadline)], [latest, latest]);
    let (head, mut written) = (CallHead { deadline, ..head() }, Vec::new());
    write_request(&mut written, &head, 1);
    assert_eq!(String::from_utf8(written).unwrap(), json(&request(&head, 1)));
}
