use serde_json::value::to_raw_value;

use super::*;
use crate::clock::Time;
use crate::id::PartId;
use crate::sessions::history::tests::{answer, id, user};
use crate::store::{ToolPart, ToolState};

fn call(name: &str) -> CallId {
    CallId::parse(name).unwrap()
}

/// An answer with a call that is the page's to run, or that is over.
fn calling(name: &str, parent: &str, of: &str, is_open: bool) -> Arc<Message> {
    let (input, start) = (to_raw_value(&()).unwrap(), Time(0));
    let state = match is_open {
        true => ToolState::Yielded { input, start },
        false => ToolState::Done { input, start, end: start, result: ToolResult::Failed("no".to_owned()) },
    };
    let body = PartBody::Tool(ToolPart {
        call: call(of),
        provider_call: of.to_owned(),
        alias: "pick".into(),
        tool: "pick".into(),
        request: None,
        is_cut: false,
        is_half_said: false,
        kept: None,
        state,
    });
    let mut message = Message::clone(&answer(name, parent, false));
    message.parts.push(Arc::new(Part { id: PartId::parse("prt_call").unwrap(), body }));
    Arc::new(message)
}

fn saying(name: Option<&str>) -> PageRequest {
    let said = vec![Said { message: name.map(id), parts: Vec::new() }];
    PageRequest { said, ..PageRequest::default() }
}

fn bringing(of: &str, has_new_results: bool) -> PageRequest {
    let results = vec![(call(of), ToolResult::Failed("no".to_owned()))];
    PageRequest { results, has_new_results, ..PageRequest::default() }
}

fn answering() -> PageRequest {
    let answer = Answer { reply: Reply::Once, input: None, message: None };
    PageRequest { answers: vec![(PermissionId::parse("per_1").unwrap(), answer)], ..PageRequest::default() }
}

/// A plan in a few words.
fn plan(request: &PageRequest, stored: &[Arc<Message>], is_busy: bool) -> String {
    match request.plan(stored, is_busy) {
        Ok(Plan::Resume) => "resume".to_owned(),
        Ok(Plan::Prompt) => "prompt".to_owned(),
        Ok(Plan::Replace) => "replace".to_owned(),
        Ok(Plan::Repeat(id)) => format!("repeat {id}"),
        Ok(Plan::Continue(turn)) => format!("continue {} after {}", turn.user.id, turn.last),
        Ok(Plan::Retry(user)) => format!("retry {}", user.id),
        Err(NotPlanned::NothingNew) => "nothing new".to_owned(),
        Err(NotPlanned::Busy) => "busy".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_the_user_says_is_a_prompt_a_repeat_or_a_replacement() {
    let stored = [user("u1", "hi"), answer("a1", "u1", false)];
    assert_eq!(plan(&saying(None), &stored, false), "prompt");
    assert_eq!(plan(&saying(Some("u2")), &stored, true), "prompt");
    assert_eq!(plan(&saying(Some("u1")), &stored, false), "repeat u1");
    let replacing = |name| PageRequest { replaces: true, ..saying(name) };
    assert_eq!(plan(&replacing(Some("u1")), &stored, false), "replace");
    assert_eq!(plan(&replacing(None), &stored, false), "prompt", "what has no name replaces nothing");
    let taken = "there is a message a1 already; choose another id or leave it out";
    assert_eq!(plan(&saying(Some("a1")), &stored, false), taken);
    assert_eq!(plan(&replacing(Some("a1")), &stored, false), taken);
}

#[test]
fn answers_to_asks_resume_the_turn_unless_the_user_says_something_as_well() {
    let stored = [user("u1", "hi")];
    assert_eq!(plan(&answering(), &stored, true), "resume");
    let mut both = PageRequest { said: saying(Some("u2")).said, ..answering() };
    assert_eq!(plan(&both, &stored, true), "prompt");
    both.manners.answers_all_asks = true;
    assert_eq!(plan(&both, &stored, true), "resume");
}

#[test]
fn results_of_the_pages_calls_continue_the_turn_that_made_them() {
    let stored = [user("u1", "hi"), calling("a1", "u1", "c1", false), calling("a2", "u1", "c2", true)];
    assert_eq!(plan(&bringing("c2", true), &stored, false), "continue u1 after a2");
    assert_eq!(plan(&bringing("c2", true), &stored, true), "continue u1 after a2", "the turn may be under way");
    assert_eq!(plan(&bringing("c2", false), &stored, false), "continue u1 after a2", "the call is still open");
    assert_eq!(plan(&bringing("c1", false), &stored, false), "nothing new", "the call is over");
    assert_eq!(plan(&bringing("c1", true), &stored, false), "continue u1 after a1");
    assert_eq!(plan(&bringing("c3", true), &stored, false), "nothing new", "nobody knows the call");
    let shown = Some(HashSet::from([call("c1"), call("c2")]));
    assert_eq!(plan(&PageRequest { shown, ..bringing("c1", true) }, &stored, false), "continue u1 after a2");
}

#[test]
fn a_request_with_nothing_new_retries_a_turn_that_failed() {
    let failed = [user("u1", "hi"), answer("a1", "u1", true)];
    assert_eq!(plan(&PageRequest::default(), &failed, false), "retry u1");
    assert_eq!(plan(&PageRequest::default(), &failed, true), "busy");
    let answered = [user("u1", "hi"), answer("a1", "u1", true), answer("a2", "u1", false)];
    assert_eq!(plan(&PageRequest::default(), &answered, false), "nothing new");
    assert_eq!(plan(&PageRequest::default(), &[], false), "nothing new");
}
