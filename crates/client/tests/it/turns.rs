//! Turns: what is said is said once, and what comes of it is told once, whatever happens to the connection.

mod ends;
mod following;
mod server;
mod tools;

use handback_client::{Api, Error, Turn, TurnEvent};
use serde_json::{Value, json};

use self::server::{Listener, Server, Taking, Voice};
use crate::stub::PATIENCE;

/// What the turn tells next, in one line.
async fn told(turn: &mut Turn) -> String {
    let next = tokio::time::timeout(PATIENCE, turn.next()).await.expect("nothing came in time");
    match next {
        None => "end".to_owned(),
        Some(Err(error)) => format!("error: {error}"),
        Some(Ok(event)) => brief(event),
    }
}

fn brief(event: TurnEvent) -> String {
    match event {
        TurnEvent::Text { part, text } => format!("{part} {text}"),
        TurnEvent::Reasoning { part, text } => format!("{part} ({text})"),
        TurnEvent::Tool(part) => format!("{} {}", part.id, part.state.unwrap().status),
        TurnEvent::Ask(ask) => format!("{}?", ask.permission.id),
        TurnEvent::AskClosed { id } => format!("{id} closed"),
        TurnEvent::Disconnected { .. } => "lost".to_owned(),
        TurnEvent::Reconnected => "found".to_owned(),
        TurnEvent::Done { message, tokens } => format!("done {} {}", message.text(), tokens.output),
        other => format!("{other:?}"),
    }
}

/// All that the turn tells from now on.
async fn rest(turn: &mut Turn) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let next = told(turn).await;
        let is_end = next == "end";
        all.push(next);
        if is_end {
            return all;
        }
    }
}

/// A turn of which the test tells what the server does.
struct Said {
    server: Server,
    turn: Turn,
    /// Whoever listens; what is told while nobody does is missed.
    listener: Option<Listener>,
    /// The id of what was said.
    question: String,
    /// The message that answers it now, and its parts.
    answer: &'static str,
    parts: Vec<Value>,
}

impl Said {
    /// Something that is said and taken.
    async fn begin() -> Self {
        let mut server = Server::start().await;
        let mut turn = server.api.turn("ses_1", "hello");
        let (listener, question) = tokio::select! {
            begun = begin(&mut server) => begun,
            event = turn.next() => panic!("nothing has happened yet: {event:?}"),
        };
        Self { server, turn, listener: Some(listener), question, answer: "msg_a", parts: Vec::new() }
    }

    fn info(&self, end: Value) -> Value {
        let mut info = json!({"id": self.answer, "sessionID": "ses_1", "role": "assistant", "parentID": self.question,
                              "agent": "default", "time": {"created": 1}});
        info.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
        info
    }

    /// The answer begins: kept first, then told.
    fn answer_begins(&self) {
        self.keep(json!({}));
        self.tell_message(json!({}));
    }

    /// The answer is complete.
    fn answer_ends(&self, mut end: Value) {
        end["time"] = json!({"created": 1, "completed": 2});
        self.keep(end.clone());
        self.tell_message(end);
    }

    fn keep(&self, end: Value) {
        let message = json!({"info": self.info(end), "parts": self.parts});
        let mut world = self.server.world();
        world.messages.retain(|kept| kept["info"]["id"] != self.answer);
        world.messages.push(message);
    }

    fn tell_message(&self, end: Value) {
        self.tell("message.updated", &json!({"sessionID": "ses_1", "info": self.info(end)}));
    }

    /// A part is told, and will be kept with the message.
    fn tell_part(&mut self, mut part: Value) {
        part["sessionID"] = json!("ses_1");
        part["messageID"] = json!(self.answer);
        self.tell("message.part.updated", &json!({"sessionID": "ses_1", "part": part}));
        self.parts.retain(|known| known["id"] != part["id"]);
        self.parts.push(part);
    }

    fn tell_text(&mut self, id: &str, text: &str) {
        self.tell_part(json!({"id": id, "type": "text", "text": text}));
    }

    fn tell_delta(&self, id: &str, delta: &str) {
        let delta =
            json!({"sessionID": "ses_1", "messageID": self.answer, "partID": id, "field": "text", "delta": delta});
        self.tell("message.part.delta", &delta);
    }

    fn tell(&self, kind: &str, properties: &Value) {
        if let Some(listener) = &self.listener {
            listener.tell(kind, properties);
        }
    }

    /// The connection is cut.
    async fn lose(&mut self) {
        self.listener.take().unwrap().cut();
        assert_eq!(told(&mut self.turn).await, "lost");
    }

    /// The next connection is there.
    async fn find(&mut self) {
        self.listener = Some(tokio::select! {
            listener = self.server.listener() => listener,
            event = self.turn.next() => panic!("nothing can have come: {event:?}"),
        });
    }

    async fn told<const COUNT: usize>(&mut self) -> [String; COUNT] {
        let mut all = [const { String::new() }; COUNT];
        for next in &mut all {
            *next = told(&mut self.turn).await;
        }
        all
    }
}

async fn begin(server: &mut Server) -> (Listener, String) {
    let listener = server.listener().await;
    let request = server.request().await;
    let id = request.strip_prefix("ses_1 prompt ").and_then(|rest| rest.strip_suffix(" \"hello\"")).unwrap();
    (listener, id.to_owned())
}

#[tokio::test]
async fn a_turn_is_told_as_it_comes() {
    let mut said = Said::begin().await;
    said.answer_begins();
    said.tell_part(json!({"id": "prt_1", "type": "reasoning", "text": "Hm"}));
    said.tell_text("prt_2", "Hel");
    said.tell_delta("prt_2", "lo");
    said.tell_text("prt_2", "Hello");
    said.tell_part(json!({"id": "prt_3", "type": "tool", "tool": "t", "state": {"status": "pending"}}));
    said.tell_part(json!({"id": "prt_3", "type": "tool", "tool": "t", "state": {"status": "completed"}}));
    said.answer_ends(json!({"finish": "tool-calls"}));
    (said.answer, said.parts) = ("msg_b", Vec::new());
    said.answer_begins();
    said.tell_text("prt_4", "Done");
    // The session is still busy, since others have said something as well.
    said.answer_ends(json!({"finish": "stop", "tokens": {"input": 1, "output": 7, "reasoning": 0,
                                                         "cache": {"read": 0, "write": 0}}}));
    let expected =
        ["prt_1 (Hm)", "prt_2 Hel", "prt_2 lo", "prt_3 pending", "prt_3 completed", "prt_4 Done", "done Done 7", "end"];
    assert_eq!(rest(&mut said.turn).await, expected);
    assert_eq!(said.server.unseen_requests(), [""; 0]);
    said.listener.unwrap().left().await;
}

#[tokio::test]
async fn no_piece_is_lost_or_told_twice_with_a_connection() {
    let mut said = Said::begin().await;
    said.answer_begins();
    said.tell_text("prt_1", "one ");
    said.tell_delta("prt_1", "two ");
    assert_eq!(said.told().await, ["prt_1 one ", "prt_1 two "]);
    said.lose().await;
    said.tell_delta("prt_1", "three ");
    said.find().await;
    // A text that grows is not kept yet.
    said.tell_delta("prt_1", "four ");
    said.tell_text("prt_1", "one two three four ");
    said.tell_delta("prt_1", "five");
    assert_eq!(said.told().await, ["found", "prt_1 three four ", "prt_1 five"]);
    said.lose().await;
    said.tell_text("prt_1", "one two three four five.");
    said.tell_text("prt_2", "And more");
    said.answer_ends(json!({"finish": "stop"}));
    said.find().await;
    let expected = ["found", "prt_1 .", "prt_2 And more", "done one two three four five.And more 0", "end"];
    assert_eq!(rest(&mut said.turn).await, expected);
}

#[tokio::test]
async fn parts_that_were_missed_are_read_when_their_message_is_complete() {
    let mut said = Said::begin().await;
    said.answer_begins();
    said.tell_text("prt_1", "one");
    assert_eq!(said.told().await, ["prt_1 one"]);
    said.lose().await;
    said.tell_text("prt_1", "one.");
    said.find().await;
    said.tell_part(json!({"id": "prt_2", "type": "tool", "tool": "t", "state": {"status": "running"}}));
    assert_eq!(said.told().await, ["found", "prt_2 running"]);
    said.tell_part(json!({"id": "prt_2", "type": "tool", "tool": "t", "state": {"status": "completed"}}));
    said.answer_ends(json!({"finish": "tool-calls"}));
    (said.answer, said.parts) = ("msg_b", Vec::new());
    said.answer_begins();
    said.tell_text("prt_3", "two");
    assert_eq!(said.told().await, ["prt_2 completed", "prt_1 .", "prt_3 two"]);
}

#[tokio::test]
async fn a_server_that_cannot_say_what_was_missed_is_asked_again() {
    let mut said = Said::begin().await;
    said.answer_begins();
    said.tell_text("prt_1", "one ");
    assert_eq!(said.told().await, ["prt_1 one "]);
    said.lose().await;
    said.tell_delta("prt_1", "two ");
    said.server.world().away = [503, 404, 200].into();
    said.find().await;
    // It would stand in the wrong place.
    said.tell_delta("prt_1", "three ");
    assert_eq!(said.told().await, ["found"]);
    said.tell_text("prt_1", "one two three ");
    assert_eq!(said.told().await, ["prt_1 two three "]);
}

#[tokio::test]
async fn a_prompt_whose_answer_was_lost_is_not_said_twice() {
    let mut server = Server::start().await;
    server.world().taking = [Taking::Refused(503), Taking::Unanswered].into();
    let mut turn = server.api.turn("ses_1", "hello");
    let told = async { [told(&mut turn).await, told(&mut turn).await] };
    let ((_listener, id), told) = tokio::join!(begin(&mut server), told);
    assert_eq!(told, ["lost", "found"]);
    // The same each time, and the last is refused because it is there.
    let same = format!("ses_1 prompt {id} \"hello\"");
    assert_eq!(server.unseen_requests(), [same.clone(), same]);
    assert_eq!(server.world().messages.len(), 1);
    assert_eq!(server.unseen_requests(), [""; 0]);
}

#[tokio::test]
async fn a_prompt_that_is_refused_is_an_error() {
    let mut server = Server::start().await;
    server.world().taking = [Taking::Refused(409)].into();
    let turn = server.api.turn("ses_1", "hello");
    let (refused, _listener) = tokio::join!(turn.finish(), server.listener());
    assert!(matches!(&refused, Err(Error::Refused(refusal)) if refusal.status == 409), "{refused:?}");
    assert_eq!(server.world().messages.len(), 0);
}

#[tokio::test]
async fn a_turn_that_ended_early_is_an_error_with_its_message() {
    let mut said = Said::begin().await;
    said.answer_begins();
    said.tell_text("prt_1", "I was about to");
    said.answer_ends(json!({"error": {"name": "APIError", "data": {"message": "The provider is gone"}}}));
    let Err(failed) = said.turn.finish().await else { panic!("it failed") };
    assert_eq!(failed.to_string(), "The provider is gone");
    let Error::TurnFailed(message) = failed else { panic!("{failed:?}") };
    assert_eq!(message.text(), "I was about to");
}

fn ask(id: &str, message: &str) -> Value {
    json!({"id": id, "type": "client_tool", "permission": "client_tool", "tool": "t", "pattern": "t",
           "patterns": [], "always": [], "sessionID": "ses_1", "messageID": message, "callID": "c",
           "clientID": "a", "title": "", "metadata": {"tool": "t", "input": {}}, "time": {"created": 1}, "input": {}})
}

#[tokio::test]
async fn asks_are_told_once_and_found_again() {
    let mut said = Said::begin().await;
    said.answer_begins();
    // Of another turn.
    said.tell("permission.updated", &ask("per_0", "msg_other"));
    said.tell("permission.updated", &ask("per_1", "msg_a"));
    said.tell("permission.asked", &ask("per_1", "msg_a"));
    said.tell("permission.updated", &ask("per_2", "msg_a"));
    assert_eq!(said.told().await, ["per_1?", "per_2?"]);
    let reply = json!({"sessionID": "ses_1", "permissionID": "per_1", "requestID": "per_1", "response": "once",
                       "reply": "once"});
    said.tell("permission.replied", &reply);
    assert_eq!(said.told().await, ["per_1 closed"]);
    said.lose().await;
    // per_2 is answered elsewhere, and another is asked.
    said.server.world().asks = vec![ask("per_3", "msg_a"), ask("per_0", "msg_other")];
    said.find().await;
    assert_eq!(said.told().await, ["found", "per_2 closed"]);
    let Some(Ok(TurnEvent::Ask(asked))) = said.turn.next().await else { panic!("something is asked") };
    assert_eq!(asked.permission.id, "per_3");
    asked.allow().await.unwrap();
    asked.allow_always().await.unwrap();
    asked.allow_with(serde_json::from_str(r#"{"a":1}"#).unwrap()).await.unwrap();
    asked.reject("no").await.unwrap();
    let expected = [
        r#"ses_1 answer per_3 {"response":"once"}"#,
        r#"ses_1 answer per_3 {"response":"always"}"#,
        r#"ses_1 answer per_3 {"response":"once","input":{"a":1}}"#,
        r#"ses_1 answer per_3 {"response":"reject","message":"no"}"#,
    ];
    assert_eq!(said.server.unseen_requests(), expected);
}

#[tokio::test]
async fn an_ask_that_an_earlier_try_may_have_answered_is_answered() {
    let mut said = Said::begin().await;
    said.answer_begins();
    said.tell("permission.updated", &ask("per_1", "msg_a"));
    let Some(Ok(TurnEvent::Ask(asked))) = said.turn.next().await else { panic!("something is asked") };
    let closed = (404, Voice::Server);
    for (tries, end) in [
        (vec![(504, Voice::Proxy), closed], None),
        (vec![(404, Voice::Proxy), closed], None),
        (vec![(500, Voice::Server), closed], None),
        // The server did not take that one, so somebody else has answered.
        (vec![(429, Voice::Server), closed], Some(404)),
        (vec![closed], Some(404)),
    ] {
        said.server.world().answering = tries.into();
        assert_eq!(asked.allow().await.err().and_then(|error| error.status()), end);
    }
}

#[tokio::test]
async fn a_turn_can_be_aborted() {
    let mut said = Said::begin().await;
    said.answer_begins();
    said.turn.abort().await.unwrap();
    assert_eq!(said.server.request().await, "ses_1 abort");
    said.answer_ends(json!({"error": {"name": "MessageAbortedError", "data": {"message": "The turn was aborted"}}}));
    assert_eq!(rest(&mut said.turn).await, ["done  0", "end"]);
}

#[tokio::test]
async fn a_turn_that_is_aborted_before_it_began_says_nothing() {
    let mut server = Server::start().await;
    let mut turn = server.api.turn("ses_1", "hello");
    turn.abort().await.unwrap();
    let (end, _listener) = tokio::join!(rest(&mut turn), server.listener());
    assert_eq!((end, server.unseen_requests()), (vec!["end".to_owned()], vec!["ses_1 abort".to_owned()]));
}

#[tokio::test]
async fn a_turn_that_is_dropped_is_not_listened_to() {
    let said = Said::begin().await;
    drop(said.turn);
    said.listener.unwrap().left().await;
}

#[tokio::test]
async fn a_session_that_is_gone_answers_nothing() {
    let mut said = Said::begin().await;
    let info = json!({"id": "ses_1", "slug": "ses_1", "projectID": "global", "directory": "", "title": "", "version": "1",
                      "time": {"created": 1, "updated": 2}});
    said.tell("session.deleted", &json!({"sessionID": "ses_1", "info": info}));
    assert_eq!(rest(&mut said.turn).await, ["error: the session was deleted", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_there_is_given_up_after_a_while() {
    // Nobody listens on this port of an address that no other program uses.
    let mut turn = Api::new("http://127.254.254.254:9", None).unwrap().turn("ses_1", "hello");
    let began = tokio::time::Instant::now();
    assert_eq!(told(&mut turn).await, "lost");
    let Some(Err(Error::GivenUp { after, .. })) = turn.next().await else { panic!("it is given up") };
    assert_eq!(after.as_secs(), 60);
    assert!((60..120).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}
