use serde_json::{Value, json};

use super::*;

fn call(state: Value) -> TurnEvent {
    let part = json!({"id": "prt_c", "sessionID": "ses_1", "messageID": "msg_a", "type": "tool", "callID": "cal_1",
                      "tool": "client_laptop_read", "state": state});
    // As text: the inputs of calls are raw JSON, which has to come from some.
    TurnEvent::Tool(serde_json::from_str(&part.to_string()).unwrap())
}

fn shown_call(input: &str, stage: Stage) -> Piece {
    Piece::Call(Call { id: "prt_c".to_owned(), tool: "read".to_owned(), input: input.to_owned(), stage })
}

fn show(events: Vec<TurnEvent>) -> Vec<Piece> {
    let mut translator = Translator::new(Some("laptop".to_owned()));
    events.into_iter().flat_map(|event| translator.translate(event)).collect()
}

#[test]
fn thoughts_are_told_from_text() {
    let (part, text) = ("prt_1".to_owned(), "Hm".to_owned());
    let thought = TurnEvent::Reasoning { part: part.clone(), text: text.clone() };
    let said = TurnEvent::Text { part: part.clone(), text: text.clone() };
    let expected = [
        Piece::Thought { part: part.clone(), text: text.clone() },
        Piece::Text { part, text },
        Piece::Note(Ink::Dim, "connected again".to_owned()),
    ];
    assert_eq!(show(vec![thought, said, TurnEvent::Reconnected]), expected);
}

#[test]
fn a_call_is_shown_when_it_runs_and_when_it_is_over() {
    let input = json!({"path": "notes.txt"});
    let pending = call(json!({"status": "pending", "input": {}, "raw": "{\"pa"}));
    let running = call(json!({"status": "running", "input": input, "time": {"start": 1_000}}));
    let completed = call(json!({
        "status": "completed", "input": input, "output": "milk", "time": {"start": 1_000, "end": 1_250},
        "attachments": [{"id": "f", "sessionID": "ses_1", "messageID": "msg_a", "type": "file", "mime": "image/png",
                         "url": "x"}],
    }));
    let done = Stage::Done {
        output: "milk".to_owned(),
        files: vec!["unnamed (image/png)".to_owned()],
        took: Some(Duration::from_millis(250)),
    };
    let expected = [Stage::Running, done].map(|stage| shown_call(&input.to_string(), stage));
    assert_eq!(show(vec![pending, running, completed]), expected);
}

#[test]
fn a_call_whose_start_was_missed_is_shown_whole() {
    let failed = call(json!({"status": "error", "input": {}, "error": "no such file", "time": {"start": 2, "end": 1}}));
    let stages = [Stage::Running, Stage::Failed { error: "no such file".to_owned() }];
    let expected = stages.map(|stage| shown_call("{}", stage));
    assert_eq!(show(vec![failed]), expected);
}

#[test]
fn names_are_short_where_they_can_be() {
    let translator = Translator::new(Some("laptop".to_owned()));
    assert_eq!(translator.short_name("client_laptop_read"), "read");
    assert_eq!(translator.short_name("client_laptop_"), "client_laptop_");
    assert_eq!(translator.short_name("list_tools"), "list_tools");
}
