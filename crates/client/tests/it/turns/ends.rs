//! What a prompt comes to, however the answer stands on the server.

use futures_util::future::join_all;
use handback_client::Error;
use handback_wire::session::Prompt;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::begin;
use super::server::{Listener, Server};
use crate::stub::{end, next};

/// How a message of an answer can stand.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    is_complete: bool,
    text: &'static str,
    calls: bool,
    error: Option<&'static str>,
}

const SAID: Step = Step { is_complete: true, text: "said", calls: false, error: None };
const SILENT: Step = Step { text: "", ..SAID };
const FAILED: Step = Step { text: "half", error: Some("the provider is gone"), ..SAID };
const CALLED: Step = Step { calls: true, ..SILENT };
const CALLED_AND_SAID: Step = Step { text: "let me see", ..CALLED };
const BEGUN: Step = Step { is_complete: false, ..SILENT };
const HALF_SAID: Step = Step { text: "half", ..BEGUN };
const CALLING: Step = Step { calls: true, ..BEGUN };

const ENDS: [Step; 3] = [SAID, SILENT, FAILED];

/// All answers of up to three messages of which each but the last has calls, so that another follows; and none at all.
fn shapes() -> Vec<Vec<Step>> {
    let lasts = [SAID, SILENT, FAILED, CALLED, CALLED_AND_SAID, BEGUN, HALF_SAID, CALLING];
    let before = [vec![], vec![CALLED], vec![CALLED_AND_SAID], vec![CALLED, CALLED_AND_SAID]];
    let with_last = |before: &Vec<Step>| lasts.map(|last| before.iter().copied().chain([last]).collect());
    [vec![]].into_iter().chain(before.iter().flat_map(with_last)).collect()
}

/// A prompt that was said.
struct Prompted {
    server: Server,
    listener: Listener,
    question: String,
    end: JoinHandle<String>,
}

impl Prompted {
    async fn begin() -> Self {
        let mut server = Server::start().await;
        let turn = server.api.turn("ses_1", "hello");
        let end = TaskTracker::new().spawn(async move {
            match turn.finish().await {
                Ok(message) => format!("text: {}", message.text()),
                Err(Error::TurnFailed(message)) => {
                    let text = message.text();
                    format!("failed: {}: {text}", Error::TurnFailed(message))
                }
                Err(error) => error.to_string(),
            }
        });
        let (listener, question) = begin(&mut server).await;
        Self { server, listener, question, end }
    }

    /// The answer stands so, and something has ended in the session: this turn, or the one before it.
    fn stands(&self, steps: &[Step]) {
        let answers = steps.iter().enumerate().map(|(number, step)| self.message(number, step));
        let mut world = self.server.world();
        world.messages.truncate(1);
        world.messages.extend(answers);
        drop(world);
        self.listener.tell("session.idle", &json!({"sessionID": "ses_1"}));
    }

    fn message(&self, number: usize, step: &Step) -> Value {
        let id = format!("msg_{number}");
        let mut info = json!({"id": id, "sessionID": "ses_1", "role": "assistant", "parentID": self.question,
                              "agent": "default", "time": {"created": 1}});
        if step.is_complete {
            info["time"]["completed"] = json!(2);
            info["finish"] = json!(if step.calls { "tool-calls" } else { "stop" });
        }
        if let Some(error) = step.error {
            info["error"] = json!({"name": "APIError", "data": {"message": error}});
        }
        let part = |kind: &str| json!({"id": format!("prt_{number}_{kind}"), "sessionID": "ses_1", "messageID": id, "type": kind});
        let (mut text, mut call) = (part("text"), part("tool"));
        text["text"] = json!(step.text);
        (call["tool"], call["state"]) = (json!("t"), json!({"status": "completed"}));
        let parts = [(!step.text.is_empty()).then_some(text), step.calls.then_some(call)];
        json!({"info": info, "parts": parts.into_iter().flatten().collect::<Vec<_>>()})
    }
}

fn expected(shape: &[Step]) -> String {
    match shape.last() {
        None => "nothing has answered".to_owned(),
        Some(&FAILED) => "failed: the provider is gone: half".to_owned(),
        Some(last) if ENDS.contains(last) => format!("text: {}", last.text),
        Some(last) => format!("failed: the turn has stopped before its end: {}", last.text),
    }
}

#[tokio::test]
async fn in_a_session_that_is_idle_only_an_answer_that_ended_is_one() {
    let came = shapes().into_iter().map(|shape| async move {
        let prompted = Prompted::begin().await;
        prompted.server.world().is_busy = false;
        prompted.stands(&shape);
        (shape, end(prompted.end).await)
    });
    let expected: Vec<_> = shapes().into_iter().map(|shape| (shape.clone(), expected(&shape))).collect();
    assert_eq!(join_all(came).await, expected);
}

#[tokio::test]
async fn in_a_session_that_is_busy_an_answer_that_has_not_ended_is_waited_for() {
    let unended = shapes().into_iter().filter(|shape| !shape.last().is_some_and(|last| ENDS.contains(last)));
    let came = unended.map(|shape| async move {
        let mut prompted = Prompted::begin().await;
        prompted.stands(&shape);
        next(&mut prompted.server.looks).await;
        let complete = shape.into_iter().map(|step| Step { is_complete: true, calls: true, ..step });
        prompted.stands(&complete.chain([Step { text: "the end", ..SAID }]).collect::<Vec<_>>());
        end(prompted.end).await
    });
    let came = join_all(came).await;
    assert_eq!(came, vec!["text: the end"; came.len()]);
    assert_eq!(came.len(), 21);
}

#[tokio::test]
async fn a_prompt_whose_id_is_taken_is_followed() {
    let mut first = Prompted::begin().await;
    let prompt = Prompt { message_id: Some(first.question.clone()), .."hello".into() };
    let again = TaskTracker::new().spawn(first.server.api.turn("ses_1", prompt).finish());
    let listener_of_again = first.server.listener().await;
    assert_eq!(first.server.request().await, format!("ses_1 prompt {} \"hello\"", first.question));
    first.stands(&[CALLED, SAID]);
    listener_of_again.tell("session.idle", &json!({"sessionID": "ses_1"}));
    assert_eq!(end(again).await.unwrap().text(), "said");
    assert_eq!(end(first.end).await, "text: said");
}

#[tokio::test]
async fn a_turn_that_stands_still_in_an_idle_session_is_waited_for_as_somebody_may_take_it_up() {
    let mut prompted = Prompted::begin().await;
    prompted.server.world().is_busy = false;
    prompted.stands(&[CALLED, HALF_SAID]);
    next(&mut prompted.server.looks).await;
    next(&mut prompted.server.looks).await;
    prompted.stands(&[CALLED, SAID]);
    assert_eq!(end(prompted.end).await, "text: said");
}
