use serde_json::{Value, json};

use super::*;

fn event(value: &Value) -> Event {
    // As text: the inputs of calls are raw JSON, which has to come from some.
    let text = format!(r#"{{"type":{},"properties":{}}}"#, value["type"], value["properties"]);
    serde_json::from_str(&text).unwrap()
}

fn answer(id: &str, parent: &str) -> Event {
    let info = json!({"id": id, "sessionID": "ses_1", "role": "assistant", "parentID": parent, "agent": "default",
                      "time": {"created": 1}, "tokens": {"input": 10, "output": 2, "reasoning": 1,
                                                         "cache": {"read": 3, "write": 4}}});
    event(&json!({"type": "message.updated", "properties": {"sessionID": "ses_1", "info": info}}))
}

fn part(mut part: Value) -> Event {
    part["sessionID"] = json!("ses_1");
    let message = part["messageID"].as_str().unwrap_or("msg_a").to_owned();
    part["messageID"] = json!(message);
    event(&json!({"type": "message.part.updated", "properties": {"sessionID": "ses_1", "part": part}}))
}

fn text(id: &str, text: &str) -> Event {
    part(json!({"id": id, "type": "text", "text": text}))
}

fn delta(id: &str, delta: &str) -> Event {
    let properties = json!({"sessionID": "ses_1", "messageID": "msg_a", "partID": id, "field": "text", "delta": delta});
    event(&json!({"type": "message.part.delta", "properties": properties}))
}

fn call(state: Value) -> Event {
    part(json!({"id": "prt_c", "type": "tool", "callID": "cal_1", "tool": "client_laptop_read", "state": state}))
}

/// A turn whose first answer was begun.
fn begun() -> Transcript {
    let mut transcript = Transcript::new("msg_u".to_owned());
    assert!(transcript.hear(&answer("msg_a", "msg_u")).is_none());
    transcript
}

fn hear(transcript: &mut Transcript, events: &[Event]) -> Vec<String> {
    brief(events.iter().filter_map(|event| transcript.hear(event)))
}

fn read(transcript: &mut Transcript, parts: &Value) -> Vec<String> {
    brief(transcript.read(&[message(parts.clone())]))
}

/// Each in one line, with all that it tells.
fn brief(events: impl IntoIterator<Item = TurnEvent>) -> Vec<String> {
    let line = |event| match event {
        TurnEvent::Text { part, text } => said(&part, &text),
        TurnEvent::Reasoning { part, text } => format!("{part}: ({text})"),
        TurnEvent::Tool(part) => serde_json::to_string(&part).unwrap(),
        other => format!("{other:?}"),
    };
    events.into_iter().map(line).collect()
}

fn said(part: &str, text: &str) -> String {
    format!("{part}: {text}")
}

fn message(parts: Value) -> MessageWithParts {
    let Event::MessageUpdated { info, .. } = answer("msg_a", "msg_u") else { unreachable!() };
    MessageWithParts { info, parts: serde_json::from_str(&parts.to_string()).unwrap() }
}

#[test]
fn text_that_comes_in_pieces_and_as_a_whole_is_shown_once() {
    // The server's order: each piece, then the whole now and then.
    let events = [
        delta("prt_1", "Hel"),
        text("prt_1", "Hel"),
        delta("prt_1", "lo "),
        delta("prt_1", "you"),
        text("prt_1", "Hello you"),
        text("prt_1", "Hello you"),
    ];
    let expected = [said("prt_1", "Hel"), said("prt_1", "lo "), said("prt_1", "you")];
    assert_eq!(hear(&mut begun(), &events), expected);
}

#[test]
fn only_what_answers_the_question_is_shown() {
    let mut transcript = begun();
    let other = part(json!({"id": "prt_9", "type": "text", "text": "no", "messageID": "msg_other"}));
    let question = part(json!({"id": "prt_8", "type": "text", "text": "no", "messageID": "msg_u"}));
    let events = [answer("msg_other", "msg_x"), other, delta("prt_9", "no"), question, text("prt_1", "yes")];
    assert_eq!(hear(&mut transcript, &events), [said("prt_1", "yes")]);
    assert!(transcript.is_last("msg_a"));
}

#[test]
fn thoughts_are_told_from_text() {
    let thought = part(json!({"id": "prt_1", "type": "reasoning", "text": "Hm"}));
    let shown = hear(&mut begun(), &[thought, delta("prt_1", "m")]);
    assert_eq!(shown, ["prt_1: (Hm)", "prt_1: (m)"]);
}

#[test]
fn after_a_gap_the_rest_is_shown_and_nothing_twice() {
    let mut transcript = begun();
    hear(&mut transcript, &[text("prt_1", "one "), delta("prt_1", "two ")]);
    transcript.lose_track();
    // "three " was missed: a piece that comes now would stand in the wrong place.
    assert_eq!(hear(&mut transcript, &[delta("prt_1", "four ")]), [""; 0]);
    assert_eq!(hear(&mut transcript, &[text("prt_1", "one two three four ")]), [said("prt_1", "three four ")]);
    assert_eq!(hear(&mut transcript, &[delta("prt_1", "five")]), [said("prt_1", "five")]);
}

#[test]
fn events_that_are_older_than_the_messages_add_nothing() {
    let mut transcript = begun();
    hear(&mut transcript, &[text("prt_1", "one ")]);
    let parts = json!([{"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_a", "type": "text", "text": "one two"}]);
    assert_eq!(read(&mut transcript, &parts), [said("prt_1", "two")]);
    let late = [delta("prt_1", "two"), text("prt_1", "one t"), delta("prt_1", "wo"), text("prt_1", "one two")];
    assert_eq!(hear(&mut transcript, &late), [""; 0]);
    assert_eq!(read(&mut transcript, &parts), [""; 0]);
}

#[test]
fn a_call_is_told_whenever_it_has_come_further() {
    let input = json!({"path": "notes.txt"});
    let pending = call(json!({"status": "pending", "input": {}, "raw": "{\"pa"}));
    let written = call(json!({"status": "pending", "input": {}, "raw": "{\"path"}));
    let running = call(json!({"status": "running", "input": input, "time": {"start": 1_000}}));
    let span = json!({"start": 1_000, "end": 1_250});
    let completed = call(json!({"status": "completed", "input": input, "output": "milk", "time": span}));
    let events = [pending.clone(), written, running.clone(), running.clone(), completed.clone(), completed.clone()];
    let mut transcript = begun();
    let whole = |event: &Event| match event {
        Event::PartUpdated { part, .. } => serde_json::to_string(part).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(hear(&mut transcript, &events), [whole(&pending), whole(&running), whole(&completed)]);
    // Older ones may come late.
    assert_eq!(hear(&mut transcript, &[running, pending]), [""; 0]);
    // One whose start was missed.
    assert_eq!(hear(&mut begun(), std::slice::from_ref(&completed)), [whole(&completed)]);
}

#[test]
fn the_cost_is_that_of_all_answers_together() {
    let mut transcript = begun();
    transcript.hear(&answer("msg_b", "msg_u"));
    transcript.hear(&answer("msg_b", "msg_u"));
    let tokens = transcript.tokens();
    let sums = [tokens.input, tokens.output, tokens.reasoning, tokens.cache.read, tokens.cache.write];
    assert_eq!(sums, [20, 4, 2, 6, 8]);
}

#[test]
fn a_cost_that_cannot_be_counted_is_the_most_there_is() {
    let mut transcript = begun();
    let most = u64::MAX;
    let info = json!({"id": "msg_b", "sessionID": "ses_1", "role": "assistant", "parentID": "msg_u",
                      "agent": "default", "time": {"created": 1},
                      "tokens": {"input": most, "output": most, "reasoning": most,
                                 "cache": {"read": most, "write": most}}});
    transcript.hear(&event(&json!({"type": "message.updated", "properties": {"sessionID": "ses_1", "info": info}})));
    let tokens = transcript.tokens();
    let sums = [tokens.input, tokens.output, tokens.reasoning, tokens.cache.read, tokens.cache.write];
    assert_eq!(sums, [most; 5]);
}
